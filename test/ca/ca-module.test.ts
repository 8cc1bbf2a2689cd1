/** Backend `ext:` over real modules in real threads: what each answer, error and end of a thread means for the issuance. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { CaError } from '../../src/ca/backend.ts'
import type { BackendState, CsrBackend, StepOptions } from '../../src/ca/csr-backend.ts'
import { CA_METHODS, createModuleBackend, loadCaModule } from '../../src/ca/module/module-backend.ts'
import { moduleContent } from '../../src/ca/module/signing-steps.ts'
import { randomSerialNumbers } from '../../src/services/serial-number.ts'
import { caModules } from '../../src/settings/backend-settings.ts'
import { certificateProfiles } from '../../src/settings/order-settings.ts'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { constraintsOn, makeAuthority } from '../signer/authority.ts'
import { aRequest, issueThrough } from '../support/csr-backend.ts'
import { caModule, makeOpenSslCa, type OpenSslCa } from '../support/openssl-ca.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { aConfig } from '../unit/config/support.ts'

const never = new AbortController().signal
const STEP: StepOptions = { signal: never, isRepeated: false, isAbandoned: false }
/** Long enough for a busy machine. */
const LONG_SECONDS = 60

describe('a CA module', () => {
  let ca: OpenSslCa
  const folder = temporaryFolder()
  const open: CsrBackend[] = []
  before(() => {
    ca = makeOpenSslCa()
  })
  after(async () => {
    await Promise.all(open.map((backend) => backend.close()))
    ca.remove()
  })

  /** As the service makes it, from its configuration. */
  async function backendOf(reference: string, settings: object, printed: string[] = []): Promise<CsrBackend> {
    const config = aConfig({
      ca: { backend: reference, extension_settings: { timeout_seconds: LONG_SECONDS, ...settings } },
    })
    const [found] = caModules(config)
    assert.ok(found)
    const profiles = certificateProfiles(config)
    const backend = createModuleBackend({
      ...found,
      module: await loadCaModule(found.module, found.key),
      profileOf: (name) => profiles.get(name),
      build: moduleContent(
        { profiles, caIssuersUrls: ['http://ca.test/issuer'], policyOids: [] },
        randomSerialNumbers(),
      ),
      onOutput: (text) => printed.push(text),
    })
    open.push(backend)
    return backend
  }

  let modules = 0
  /** A module written for one test. */
  const moduleWith = (body: string) => {
    const file = path.join(folder, `module-${++modules}.mjs`)
    writeFileSync(file, body)
    return `ext:${file}#Ca`
  }

  const errorOf = (work: Promise<unknown>): Promise<CaError> =>
    work.then(
      () => assert.fail('it ended without an error'),
      (error) => {
        assert.ok(error instanceof CaError, String(error))
        return error
      },
    )

  describe('that issues from the CSR', () => {
    const issuing = (body: string) => `export class Ca { async issue(order, context) { ${body} } }`

    test('is given the order as plain data', async () => {
      const file = path.join(folder, 'order.json')
      const reference = moduleWith(
        `import { writeFileSync } from 'node:fs'
        export class Ca {
          constructor({ file }) { this.file = file }
          issue(order, context) {
            writeFileSync(this.file, JSON.stringify({ order, state: context.state, aborted: context.signal.aborted }))
            return { status: 'refused', reason: 'recorded' }
          }
        }`,
      )
      const backend = await backendOf(reference, { file })
      const requested = { notAfter: new Date(Date.now() + 3_600_000) }
      const request = await aRequest(['a.test', 'b.test'], { replaces: 'aki.serial', requested })
      const ended = await issueThrough(backend, request)
      assert.deepEqual([ended.status, ended.status === 'refused' && ended.reason], ['refused', 'recorded'])
      const { order, ...context } = JSON.parse(readFileSync(file, 'utf8'))
      assert.deepEqual(context, { aborted: false })
      assert.match(order.csr, /^-----BEGIN CERTIFICATE REQUEST-----/)
      assert.deepEqual(order.identifiers, request.identifiers)
      assert.deepEqual(
        [order.certificateId, order.orderId, order.profile, order.validityDays, order.replaces],
        [request.certificateId, request.orderId, 'default', 1, 'aki.serial'],
      )
      assert.deepEqual(
        [order.keyUsages, order.extendedKeyUsages],
        [['digital_signature', 'key_encipherment'], ['server_auth']],
      )
      assert.equal(order.notAfter, request.notAfter.toISOString())
      assert.deepEqual(order.requested, { notAfter: requested.notAfter.toISOString() })
    })

    const WRONG: readonly (readonly [string, RegExp])[] = [
      ["return 'text'", /the answer is no object/],
      ["return { status: 'issued' }", /has no chain, a text in PEM/],
      ["return { status: 'issued', chain: 'x' }", /has a chain without a certificate/],
      ["return { status: 'issued', chain: '' }", /has a chain without a certificate/],
      ["return { status: 'pending', retryAfterSeconds: 'soon' }", /retryAfterSeconds that is no number/],
      ["return { status: 'pending', state: 'x'.repeat(70000) }", /state of more than 65536 characters/],
      ["return { status: 'refused', problem: 'badNonce' }", /has a problem that is none of serverInternal, badCSR/],
      ['return { status: () => 1 }', /failed: the answer cannot be sent/],
      ["return { status: 'issued', chain: 'A'.repeat(10_000_000) }", /failed: the answer has more than 262144 bytes/],
    ]
    for (const [body, said] of WRONG)
      test(`${body}: a certificate may exist, and it is not asked again`, async () => {
        const backend = await backendOf(moduleWith(issuing(body)), {})
        const error = await errorOf(backend.advance(await aRequest(['a.test']), undefined, STEP))
        assert.match(error.message, said)
        assert.deepEqual([error.retryable, error.mayHaveIssued], [false, true])
      })

    test('what it throws decides by its members; without them a certificate may exist', async () => {
      const body = issuing("throw Object.assign(new Error('why'), JSON.parse(order.profile))")
      const backend = await backendOf(moduleWith(body), {})
      const thrown = async (facts: object) => {
        const request = await aRequest(['a.test'], { profile: JSON.stringify(facts) })
        const error = await errorOf(backend.advance(request, undefined, STEP))
        assert.match(error.message, /#Ca failed: why$/)
        return [error.retryable, error.mayHaveIssued, error.retryAfterMs]
      }
      assert.deepEqual(await thrown({}), [true, true, undefined])
      assert.deepEqual(await thrown({ mayHaveIssued: false, retryAfterSeconds: 7 }), [true, false, 7000])
      assert.deepEqual(await thrown({ retryable: false, mayHaveIssued: false }), [false, false, undefined])
    })

    test('a call that is cut off may have issued, and its thread is replaced', async () => {
      const backend = await backendOf(caModule('Faulty'), { ...ca.settings, timeout_seconds: 3 })
      for (const label of ['hangs', 'spins', 'exits', 'leaks']) {
        const request = await aRequest([`${label}.test`])
        const error = await errorOf(backend.advance(request, undefined, STEP))
        assert.match(error.message, /did not end within 3 seconds|ended its thread|broke its thread/)
        assert.deepEqual([error.retryable, error.mayHaveIssued], [true, true], label)
      }
      await backend.checkHealth(never)
    })

    test('a module that can no longer be loaded has issued nothing', async () => {
      const reference = moduleWith(issuing("return { status: 'refused' }"))
      const backend = await backendOf(reference, {})
      rmSync(path.join(folder, `module-${modules}.mjs`))
      const error = await errorOf(backend.advance(await aRequest(['a.test']), undefined, STEP))
      assert.match(error.message, /Cannot find module/)
      assert.deepEqual([error.retryable, error.mayHaveIssued], [true, false])
    })

    test('without mayHaveIssued: false, what is pending may be issued', async () => {
      const body = issuing(
        "return { status: 'pending', state: [1], retryAfterSeconds: 0, ...JSON.parse(order.profile) }",
      )
      const backend = await backendOf(moduleWith(body), {})
      const pending = async (answer: object) => {
        const request = await aRequest(['a.test'], { profile: JSON.stringify(answer) })
        return backend.advance(request, undefined, STEP)
      }
      const common = { status: 'pending', retryAfterMs: 1000 }
      assert.deepEqual(await pending({}), {
        ...common,
        mayHaveIssued: true,
        state: { own: [1], mayHaveIssued: true },
      })
      assert.deepEqual(await pending({ mayHaveIssued: false, retryAfterSeconds: 1e9 }), {
        ...common,
        retryAfterMs: 3_600_000,
        mayHaveIssued: false,
        state: { own: [1] },
      })
    })

    test('an order that failed before the module was asked does not reach it', async () => {
      const backend = await backendOf(moduleWith(issuing("throw new Error('it was asked')")), {})
      const step = await backend.advance(await aRequest(['a.test']), undefined, { ...STEP, isAbandoned: true })
      assert.equal(step.status, 'refused')
    })

    test('more calls than concurrency wait without a lease, and what may have been issued stays so', async () => {
      const body = issuing('await new Promise((resolve) => setTimeout(resolve, 600_000))')
      const backend = await backendOf(moduleWith(body), { concurrency: 1 })
      const stopping = new AbortController()
      const request = await aRequest(['a.test'])
      const first = backend.advance(request, undefined, { ...STEP, signal: stopping.signal }).catch(() => undefined)
      const [second, repeated] = await Promise.all([
        backend.advance(request, undefined, STEP),
        backend.advance(request, { own: 1 }, { ...STEP, isRepeated: true }),
      ])
      const waiting = { status: 'pending', retryAfterMs: 1000, contact: 'none' }
      assert.deepEqual(second, { ...waiting, state: {}, mayHaveIssued: false })
      assert.deepEqual(repeated, { ...waiting, state: { own: 1, isRepeated: true }, mayHaveIssued: true })
      stopping.abort()
      await first
    })
  })

  describe('that signs what this service builds', () => {
    const settings = (more: object = {}) => ({ chain: ca.certificate, key: ca.key, ...more })
    const drafted = async (backend: CsrBackend, names = ['a.test']) => {
      const request = await aRequest(names)
      const step = await backend.advance(request, undefined, STEP)
      assert.ok(step.status === 'pending')
      assert.deepEqual([step.retryAfterMs, step.mayHaveIssued], [0, false], 'committed before it is signed')
      return { request, state: JSON.parse(JSON.stringify(step.state)) as BackendState }
    }

    test('signs the TBSCertificate of the profile', async () => {
      const ended = await issueThrough(await backendOf(caModule('Signs'), settings()), await aRequest(['a.test']))
      assert.ok(ended.status === 'issued')
      const leaf = new X509Certificate(ended.chain[0] as Buffer)
      assert.equal(leaf.subjectAltName, 'DNS:a.test')
      assert.match(leaf.infoAccess ?? '', /http:\/\/ca\.test\/issuer/)
      assert.ok(leaf.verify(new X509Certificate(ended.chain[1] as Buffer).publicKey))
      assert.deepEqual(parseCertificate(ended.chain[0] as Buffer).tbs.crlDistributionPointUrls, [])
    })

    test('the issuer may say what its certificates name', async () => {
      const more = {
        caIssuersUrls: ['http://pki.test/ca'],
        crlUrls: ['http://pki.test/crl'],
        algorithm: 'SHA384withECDSA',
      }
      const ended = await issueThrough(
        await backendOf(caModule('Signs'), settings({ more })),
        await aRequest(['a.test']),
      )
      assert.ok(ended.status === 'issued')
      const { tbs, signatureAlgorithm } = parseCertificate(ended.chain[0] as Buffer)
      assert.deepEqual([tbs.crlDistributionPointUrls, signatureAlgorithm], [more.crlUrls, 'SHA384withECDSA'])
      assert.match(new X509Certificate(ended.chain[0] as Buffer).infoAccess ?? '', /pki\.test\/ca/)
    })

    test('a repeated step signs the same bytes', async () => {
      const calls = path.join(folder, 'signed')
      const backend = await backendOf(caModule('Signs'), settings({ calls }))
      const { request, state } = await drafted(backend)
      const first = await backend.advance(request, state, STEP)
      const again = await backend.advance(request, state, { ...STEP, isRepeated: true })
      assert.ok(first.status === 'issued' && again.status === 'issued')
      const [one, two] = readFileSync(calls, 'utf8').trimEnd().split('\n')
      assert.equal(one, two)
    })

    test('of an abandoned order only what may have been signed is signed again', async () => {
      const backend = await backendOf(caModule('Signs'), settings())
      const { request, state } = await drafted(backend)
      const abandoned = { ...STEP, isAbandoned: true }
      assert.equal((await backend.advance(request, state, abandoned)).status, 'refused')
      assert.equal((await backend.advance(request, state, { ...abandoned, isRepeated: true })).status, 'issued')
    })

    for (const [fault, said] of [
      ['wrong signature', /the answer does not verify with the certificate of its issuer/],
      ['no bytes', /the answer is no signature in bytes/],
    ] as const)
      test(`${fault}: no certificate exists, so the next backend may be asked`, async () => {
        const backend = await backendOf(caModule('Signs'), settings({ fault }))
        const { request, state } = await drafted(backend)
        const error = await errorOf(backend.advance(request, state, STEP))
        assert.match(error.message, said)
        assert.deepEqual([error.retryable, error.mayHaveIssued], [true, false])
      })

    test('a signature whose call was cut off may exist', async () => {
      const backend = await backendOf(caModule('Signs'), settings({ fault: 'hangs', timeout_seconds: 4 }))
      const { request, state } = await drafted(backend)
      const error = await errorOf(backend.advance(request, state, STEP))
      assert.deepEqual([error.retryable, error.mayHaveIssued], [true, true])
    })

    // RFC 5280 §4.2.1.10
    test('names outside the name constraints of its issuer are refused before the signature', async () => {
      const authority = makeAuthority('P-256', { constraints: constraintsOn({ dns: ['corp.test'] }) })
      const [chain, key, calls] = ['narrow.pem', 'narrow.key', 'narrow-signed'].map((name) => path.join(folder, name))
      writeFileSync(chain as string, authority.certificatePem)
      writeFileSync(key as string, authority.privateKey.export({ format: 'pem', type: 'pkcs8' }))
      const backend = await backendOf(caModule('Signs'), { chain, key, calls })
      const refused = await issueThrough(backend, await aRequest(['www.corp.test', 'x.lab.test']))
      assert.ok(refused.status === 'refused')
      assert.equal(refused.problem.type, 'urn:ietf:params:acme:error:rejectedIdentifier')
      assert.match(refused.reason, /x\.lab\.test is outside the permitted subtrees/)
      assert.ok(!existsSync(calls as string), 'nothing was signed')
      assert.equal((await issueThrough(backend, await aRequest(['www.corp.test']))).status, 'issued')
    })

    test('an issuer that cannot be read signs nothing', async () => {
      const more = { chain: new X509Certificate(readFileSync(ca.certificate)).toString().replace('M', 'N') }
      const backend = await backendOf(caModule('Signs'), settings({ more }))
      const error = await errorOf(backend.advance(await aRequest(['a.test']), undefined, STEP))
      assert.match(error.message, /the answer has an issuer that cannot be read/)
      assert.deepEqual([error.retryable, error.mayHaveIssued], [true, false])
      await assert.rejects(backend.checkHealth(never), /has an issuer that cannot be read/)
    })
  })

  describe('at the start', () => {
    const loaded = (reference: string, settings: object = {}) => {
      const [found] = caModules(aConfig({ ca: { backend: reference, extension_settings: settings } }))
      assert.ok(found)
      return loadCaModule(found.module, found.key)
    }

    test('has the methods that it has', async () => {
      const { methods } = await loaded(caModule('Faulty'), ca.settings)
      assert.deepEqual(methods, ['issue', 'revoke', 'checkHealth', 'renewalInfo'])
      assert.deepEqual(
        CA_METHODS.filter((method) => !methods.includes(method)),
        ['issuer', 'sign'],
      )
    })

    for (const [name, settings, said] of [
      ['Faulty', { command: [] }, /^ca\.extension_settings: \S+#Faulty refuses them: command must be a list/],
      ['Signs', { chain: 1 }, /^ca\.extension_settings: \S+#Signs refuses them: chain and key must be PEM files$/],
      ['Throwing', {}, /^ca\.extension_settings: \S+#Throwing refuses them: the constructor says no$/],
      ['Both', { chain: 'a', key: 'b' }, /^ca\.backend: \S+#Both has issue and sign; /],
      ['SignsOnly', {}, /^ca\.backend: \S+#SignsOnly has sign and needs issuer beside it/],
      ['Empty', {}, /^ca\.backend: \S+#Empty needs the method issue, or issuer and sign/],
      ['notAClass', {}, /^ca\.backend: \S+#notAClass is not usable: is no class$/],
      ['Missing', {}, /^ca\.backend: \S+#Missing is not usable: exports no Missing$/],
      ['Hanging', {}, /^ca\.backend: \S+#Hanging is not usable: has not finished loading after 10 seconds$/],
    ] as const)
      test(`${name} refuses it, with a sentence that names the key`, async () => {
        await assert.rejects(loaded(caModule(name), settings), { message: said })
      })
  })

  test('of its advice about renewal only what a browser opens without danger is passed on', async () => {
    const advice = (members: string) => `{ start: '2036-01-01T00:00:00Z', end: '2036-01-02T00:00:00Z', ${members} }`
    for (const [members, explanationUrl, retryAfterMs] of [
      ["explanationUrl: 'https://ca.test/why', retryAfterSeconds: 0", 'https://ca.test/why', 60_000],
      ["explanationUrl: 'javascript:alert(1)'", undefined, 3_600_000],
      ["explanationUrl: 'https://' + 'a'.repeat(3000), retryAfterSeconds: 1e9", undefined, 86_400_000],
    ] as const) {
      const body = `export class Ca { issue() {} renewalInfo() { return ${advice(members)} } }`
      const backend = await backendOf(moduleWith(body), {})
      const found = await backend.renewalInfo?.(readFileSync(ca.certificate), never)
      assert.deepEqual([found?.explanationUrl, found?.retryAfterMs], [explanationUrl, retryAfterMs])
    }
  })

  test('its revocations and health are calls like the others', async () => {
    const backend = await backendOf(caModule('Away'), ca.settings)
    await backend.checkHealth(never)
    const away = path.join(ca.folder, 'away')
    writeFileSync(away, '')
    await assert.rejects(backend.checkHealth(never), /#Away failed: away/)
    rmSync(away)
    const ended = await issueThrough(backend, await aRequest(['revoked.test']))
    assert.ok(ended.status === 'issued')
    await backend.revoke({ certificate: ended.chain[0] as Buffer, reason: 3 }, never)
    await until('the command was told', () => Object.values(ca.revoked()).includes('3'))
    assert.equal(existsSync(away), false)
  })
})
