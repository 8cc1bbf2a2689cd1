/** Services whose CA is a module (`ca.backend: ext:`): the examples of the documents, and modules that misbehave. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { parse, stringify } from 'yaml'
import { type Answer, base64url, idOf, revoke, send } from '../support/acme-client.ts'
import { restartedScene } from '../support/acme-scene.ts'
import { COMMAND_CA, caModule, makeOpenSslCa, type OpenSslCa, SIGNING_CA } from '../support/cas/openssl-ca.ts'
import { runChancery } from '../support/commands.ts'
import { rowsIn } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { until } from '../support/until.ts'
import { aCsr, P256_KEY } from '../unit/shared/pki/support.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')
let orders = 0

/** @param caOf the section `ca` */
function aServiceWith(caOf: (ca: OpenSslCa) => Record<string, unknown>) {
  const ca = makeOpenSslCa()
  const { service, responder, client, again } = restartedScene(() => ({
    fronts: 1,
    config: { ca: { circuit_breaker_failure_threshold: 1000, ...caOf(ca) } },
  }))
  after(() => ca.remove())

  /** kill -9, and a start on what it leaves behind. */
  async function crash(): Promise<void> {
    await service.kill()
    await again()
  }

  async function ready(label: string, more: object = {}) {
    const name = `${label}.order-${++orders}.test`
    const order = await client.newOrder([name], more)
    await client.authorize(order, responder)
    const csr = base64url(await aCsr(P256_KEY, { names: [{ type: 'dns', value: name }] }))
    return { order, name, csr, url: order.headers.location as string }
  }

  async function finalized(label = 'good', more: object = {}): Promise<{ order: Answer; name: string; url: string }> {
    const { order, name, csr, url } = await ready(label, more)
    const reply = await client.post(order.json.finalize, { csr })
    assert.equal(reply.status, 200, reply.text)
    return { order: await client.settled(url), name, url }
  }

  const query = (text: string, values: unknown[] = []) => rowsIn(service.database, text, values)

  return {
    ca,
    service,
    client,
    ready,
    finalized,
    crash,
    query,
    backendOf: async (url: string) =>
      (await query('SELECT backend FROM certificates WHERE order_id = $1', [idOf(url)]))[0]?.['backend'],
    chainOf: async (order: Answer) => {
      const { text } = await client.post(order.json.certificate)
      return (text.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []).map((pem) => new X509Certificate(pem))
    },
    revoke: async (leaf: X509Certificate | undefined, reason: number) => {
      assert.ok(leaf)
      assert.equal((await revoke(client, leaf.raw, reason)).status, 200)
    },
  }
}

describe('a service whose CA is a module that misbehaves', () => {
  const other = makeOpenSslCa()
  after(() => other.remove())
  const place = aServiceWith(({ settings, folder }) => ({
    backend: caModule('Faulty'),
    extension_settings: {
      ...settings,
      environment: { CA_FOLDER: folder, OTHER_CA_FOLDER: other.folder },
      // Long enough for OpenSSL on a busy machine; what never ends takes as long.
      timeout_seconds: 6,
      concurrency: 3,
    },
    deferred_signing_timeout: 240,
  }))
  const callsFor = (name: string) =>
    readFileSync(path.join(place.ca.folder, 'calls.jsonl'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
      .filter((call) => call.name === name)
  const logged = (what: string, url: string, event: string) =>
    place.service.untilLogged(what, (line) => line['event'] === event && line['orderId'] === idOf(url))

  test('what hangs, spins, throws, exits or leaks is issued at its second try, once, and harms no other order', async () => {
    const faulty = ['hangs', 'spins', 'throws', 'exits', 'leaks']
    const all = await Promise.all([...faulty, 'good', 'good', 'good'].map((label) => place.finalized(label)))
    for (const { order, name, url } of all) {
      assert.equal(order.json.status, 'valid', `${name}: ${order.text}`)
      const rows = await place.query('SELECT FROM certificates WHERE order_id = $1', [idOf(url)])
      assert.equal(rows.length, 1)
      const isFaulty = !name.startsWith('good')
      if (isFaulty) {
        const calls = callsFor(name)
        assert.deepEqual([calls[0].isRepeated, calls[1].isRepeated], [false, true], name)
        assert.deepEqual(calls[0].environment, [])
        const { reason } = await logged('the failure', url, 'backend_failed')
        assert.match(String(reason), /Faulty (did not end within|failed: SECRET|ended its thread|broke its thread)/)
      }
    }
    assert.equal((await place.finalized()).order.json.status, 'valid', 'the next order')
  })

  test('a module that says that nothing has happened is asked again, as for the first time', async () => {
    const { order, name } = await place.finalized('unable')
    assert.equal(order.json.status, 'valid')
    assert.deepEqual(
      callsFor(name).map(({ isRepeated }) => isRepeated),
      [false, false],
    )
  })

  test('an answer that comes later gets its state back', async () => {
    const { order, name } = await place.finalized('waits')
    assert.equal(order.json.status, 'valid')
    assert.deepEqual(
      callsFor(name).map(({ state }) => state),
      [undefined, { ticket: 7 }],
    )
  })

  test('a refusal is final, and the client reads words of this service', async () => {
    const { order, url } = await place.finalized('refuses')
    assert.equal(order.json.status, 'invalid')
    assert.equal(order.json.error.type, 'urn:ietf:params:acme:error:rejectedIdentifier')
    assert.doesNotMatch(order.text, /SECRET/)
    assert.match(String((await logged('the refusal', url, 'backend_refused'))['reason']), /SECRET of the module/)
  })

  test('an error that is not retryable ends the order', async () => {
    const { order, name } = await place.finalized('final')
    assert.equal(order.json.status, 'invalid')
    assert.doesNotMatch(order.text, /SECRET/)
    assert.equal(callsFor(name).length, 1)
  })

  for (const [label, said] of [
    ['garbage', /has a status that is none of issued, pending, refused/],
    ['wrongname', /names that the order has not: dns:other.test/],
  ] as const)
    test(`${label}: the order fails with an alarm, and no second certificate is asked for`, async () => {
      const { order, name, url } = await place.finalized(label)
      assert.equal(order.json.status, 'invalid')
      assert.doesNotMatch(order.text, /SECRET|other\.test/)
      assert.match(JSON.stringify(await logged('an alarm', url, 'alarm')), said)
      assert.equal(callsFor(name).length, 1)
    })

  test('what was issued wrongly is revoked by the module', async () => {
    await until('a revocation', () => Object.keys(place.ca.revoked()).length > 0)
  })

  test('a chain of another CA fails the order with an alarm, and its revocation is asked for', async () => {
    const { order, name, url } = await place.finalized('foreign')
    assert.equal(order.json.status, 'invalid')
    assert.equal(order.json.error.detail, 'the CA did not issue the certificate that was asked for')
    assert.match(JSON.stringify(await logged('an alarm', url, 'alarm')), /does not end at one of the trust_anchors/)
    assert.equal(callsFor(name).length, 1)
    assert.equal(await place.backendOf(url), undefined, 'nothing is recorded')
    const serial = (other.issued().at(-1) as string).replace(/^0+/, '')
    await until('its revocation', () =>
      Object.keys(place.ca.revoked()).some((told) => told.replace(/^0+/, '') === serial),
    )
  })

  test('a CA certificate that belongs to another chain is left out, and the right ones are found', async () => {
    const [plain, strange] = [await place.finalized(), await place.finalized('strange')]
    assert.equal(strange.order.json.status, 'valid')
    const issuersOf = async ({ order }: typeof plain) => (await place.chainOf(order)).slice(1).map(String)
    assert.deepEqual(await issuersOf(strange), await issuersOf(plain))
  })

  test('what it prints is a line of the log', async () => {
    await place.finalized('prints')
    const line = await place.service.untilLogged('the output', (entry) =>
      /printed by the module/.test(String(entry['output'])),
    )
    assert.equal(line['backend'], caModule('Faulty'))
  })

  test('kill -9 during a call: the next start asks again, as repeated, and one certificate comes of it', async () => {
    const before = place.ca.issued().length
    const { order, name, csr, url } = await place.ready('hangs')
    void place.client.post(order.json.finalize, { csr }).catch(() => undefined)
    const file = path.join(place.ca.folder, 'calls.jsonl')
    await until('the call', () => readFileSync(file, 'utf8').includes(`"${name}"`))
    await place.crash()
    assert.equal((await place.client.settled(url)).json.status, 'valid')
    assert.deepEqual(
      callsFor(name).map(({ isRepeated }) => isRepeated),
      [false, true],
    )
    assert.equal(place.ca.issued().length, before + 1)
  })

  test('renewal information shows the window of the module', async () => {
    const { order } = await place.finalized()
    const [leaf] = await place.chainOf(order)
    const [row] = await until('the window', async () => {
      const rows = await place.query(
        "SELECT u.* FROM upstream_renewals u JOIN certificates c ON c.id = u.certificate_id WHERE encode(c.serial_number, 'hex') = $1",
        [leaf?.serialNumber.toLowerCase().replace(/^(?:00)+/, '')],
      )
      return JSON.stringify(rows).includes('2036-01-01') && rows
    })
    assert.match(JSON.stringify(row), /ca\.test\/why/)
  })
})

const THRESHOLD = 4

describe('a careless module in front of another CA', () => {
  const CARELESS = caModule('Faulty')
  const place = aServiceWith(({ settings, folder }) => ({
    backend: 'failover',
    failover: { backends: [CARELESS, COMMAND_CA], probe_seconds: 600 },
    // More than fail at a time in the first test.
    circuit_breaker_failure_threshold: THRESHOLD,
    extension_settings: {
      ...settings,
      environment: { CA_FOLDER: folder, OTHER_CA_FOLDER: folder },
      timeout_seconds: 6,
    },
    deferred_signing_timeout: 40,
  }))

  test('what throws, hangs or exits without a word may have issued: the order stays with it', async () => {
    const ended = await Promise.all(['throws', 'hangs', 'exits'].map((label) => place.finalized(label)))
    for (const { order, name, url } of ended)
      assert.deepEqual([order.json.status, await place.backendOf(url)], ['valid', CARELESS], name)
    assert.equal(place.ca.issued().length, ended.length)
  })

  test('what says that nothing was issued is followed by the next one at once', async () => {
    const { order, url } = await place.finalized('unable')
    assert.deepEqual([order.json.status, await place.backendOf(url)], ['valid', COMMAND_CA])
  })

  test('one that always throws keeps its orders until they end; left alone, it keeps no further ones', async () => {
    const issued = place.ca.issued().length
    // The circuit breaker counts orders, and those of the tests before count.
    const failing: string[] = []
    for (let isAsked = true; isAsked; ) {
      const { order, csr, url } = await place.ready('breaks')
      const { status } = (await place.client.post(order.json.finalize, { csr })).json
      isAsked = status === 'processing'
      if (isAsked) failing.push(url)
    }
    assert.ok(failing.length > 0 && failing.length <= THRESHOLD, String(failing.length))
    await place.service.untilLogged('it is left alone', (line) => line['event'] === 'backend_away')
    const next = await place.finalized('breaks')
    assert.deepEqual([next.order.json.status, await place.backendOf(next.url)], ['valid', COMMAND_CA])
    let taken = 0
    for (const url of failing) {
      const ended = await until('the end of its order', async () => {
        const { json } = await place.client.post(url)
        return json.status !== 'processing' && json
      })
      assert.doesNotMatch(JSON.stringify(ended), /SECRET/)
      if (ended.status === 'invalid') continue
      // It was left alone before this one; a busy machine says `processing` of an order that the next CA has, too.
      assert.deepEqual([ended.status, await place.backendOf(url)], ['valid', COMMAND_CA])
      taken += 1
    }
    assert.ok(taken < failing.length, 'none of them had failed')
    assert.equal(place.ca.issued().length, issued + 2 + taken, 'no other CA was asked for those that failed')
  })
})

/** An order of the example's command. */
const COMMAND = { profile: 'command' }

describe('several modules, and the command of the example for a profile', () => {
  const AWAY = caModule('Away')
  const place = aServiceWith(({ settings, folder, certificate, key }) => ({
    backend: 'failover',
    failover: { backends: [AWAY, COMMAND_CA], probe_seconds: 1 },
    circuit_breaker_failure_threshold: 2,
    policy_oids: ['2.23.140.1.2.1'],
    profiles: {
      command: {
        backend: COMMAND_CA,
        key_usages: ['digital_signature'],
        extended_key_usages: ['server_auth'],
      },
      signed: {
        backend: SIGNING_CA,
        key_usages: ['digital_signature', 'key_encipherment'],
        extended_key_usages: ['client_auth'],
        validity_days: 5,
      },
    },
    extension_settings: {
      ...settings,
      [SIGNING_CA]: { chain: certificate, command: ['openssl', 'dgst', '-sha256', '-sign', key] },
      [AWAY]: { environment: { CA_FOLDER: folder } },
    },
  }))
  const awayFile = () => path.join(place.ca.folder, 'away')

  test('the first one issues while it is there', async () => {
    const { order, url } = await place.finalized()
    assert.deepEqual([order.json.status, await place.backendOf(url)], ['valid', AWAY])
  })

  test('the next one issues while the first is away, and a probe brings the first back', async () => {
    writeFileSync(awayFile(), '')
    for (let done = 0; done < 3; done++) {
      const { order, url } = await place.finalized()
      assert.deepEqual([order.json.status, await place.backendOf(url)], ['valid', COMMAND_CA])
    }
    await place.service.untilLogged('it is left alone', (line) => line['event'] === 'backend_away')
    rmSync(awayFile())
    await place.service.untilLogged('it is back', (line) => line['event'] === 'backend_back')
    assert.equal(await place.backendOf((await place.finalized()).url), AWAY)
  })

  test('a module of a profile signs what this service has built', async () => {
    const { order, name, url } = await place.finalized('good', { profile: 'signed' })
    assert.deepEqual([order.json.status, await place.backendOf(url)], ['valid', SIGNING_CA])
    const [leaf] = await place.chainOf(order)
    assert.equal(leaf?.subjectAltName, `DNS:${name}`)
    assert.deepEqual(leaf?.keyUsage, ['1.3.6.1.5.5.7.3.2'])
    const days = (Date.parse(leaf?.validTo as string) - Date.parse(leaf?.validFrom as string)) / 86_400_000
    assert.equal(Math.round(days), 5)
    assert.ok(leaf?.raw.includes(Buffer.from('67810c010201', 'hex')), 'the policy of ca.policy_oids')
  })

  test('a period that the client requests is built as it is', async () => {
    const notAfter = new Date(Math.floor(Date.now() / 1000) * 1000 + 7_200_000)
    const { order } = await place.finalized('good', { profile: 'signed', notAfter: notAfter.toISOString() })
    assert.equal(order.json.status, 'valid', order.text)
    const [leaf] = await place.chainOf(order)
    assert.equal(Date.parse(leaf?.validTo as string), notAfter.getTime())
  })

  test('one without a method revoke is known at the start, and its revocations end here', async () => {
    await place.service.untilLogged('a warning', (line) => /has no method revoke/.test(line.message))
    const { order } = await place.finalized('good', { profile: 'signed' })
    const [leaf] = await place.chainOf(order)
    await place.revoke(leaf, 4)
    await until('nothing waits', async () => (await place.query('SELECT FROM backend_revocations')).length === 0)
    assert.equal(existsSync(awayFile()), false)
  })

  test('delivers what the command has issued, and says who issued it', async () => {
    const { order, name, url } = await place.finalized('good', COMMAND)
    assert.equal(order.json.status, 'valid', order.text)
    const [leaf, issuer] = await place.chainOf(order)
    assert.equal(leaf?.subjectAltName, `DNS:${name}`)
    assert.equal(leaf?.issuer, 'CN=CA of a module')
    assert.equal(issuer?.subject, 'CN=CA of a module')
    assert.ok(place.ca.issued().includes(leaf?.serialNumber.toLowerCase().padStart(32, '0') as string))
    assert.equal(await place.backendOf(url), COMMAND_CA)
  })

  test('a period that the client requests is refused, since this CA could not keep it', async () => {
    const notAfter = new Date(Date.now() + 86_400_000).toISOString()
    const { order, url } = await place.finalized('good', { ...COMMAND, notAfter })
    assert.equal(order.json.status, 'invalid')
    const orderId = idOf(url)
    const line = await place.service.untilLogged(
      'the refusal',
      ({ event, ...facts }) => event === 'backend_refused' && facts['orderId'] === orderId,
    )
    assert.match(String(line['reason']), /whole days from now only/)
  })

  test('no signer runs, and none is needed', () => {
    assert.throws(() => place.service.signerPid(), /the signer has not started/)
  })

  test('a revocation reaches the command', async () => {
    const { order } = await place.finalized('good', COMMAND)
    const [leaf] = await place.chainOf(order)
    await place.revoke(leaf, 4)
    const serial = leaf?.serialNumber.toLowerCase().replace(/^0+/, '') as string
    const told = await until('the command was told', () => {
      const found = Object.entries(place.ca.revoked()).find(([name]) => name.replace(/^0+/, '') === serial)
      return found?.[1] !== '' && found
    })
    assert.equal(told[1], '4')
    await until('it has confirmed', async () => (await place.query('SELECT FROM backend_revocations')).length === 0)
  })

  test('several orders at a time are issued, each once', async () => {
    const before = place.ca.issued().length
    const ended = await Promise.all(Array.from({ length: 12 }, () => place.finalized('good', COMMAND)))
    assert.deepEqual(new Set(ended.map(({ order }) => order.json.status)), new Set(['valid']))
    assert.equal(place.ca.issued().length - before, 12)
  })

  describe('whose configuration is wrong', () => {
    /** Another configuration beside that of the service. */
    const configWith = (ca: object) => {
      const file = path.join(place.service.folder, `other-${++orders}.yaml`)
      const config = parse(readFileSync(path.join(place.service.folder, 'config.yaml'), 'utf8'))
      config.server.port = 1 + Number(config.server.port)
      const alone = { backend: COMMAND_CA, failover: {}, profiles: {}, extension_settings: place.ca.settings }
      writeFileSync(file, stringify({ ...config, ca: { ...config.ca, ...alone, ...ca } }))
      return file
    }
    /** A start of the service in a process of its own. */
    async function run(file: string, word: string) {
      if (word === 'serve') return runCommand(process.execPath, [CLI, '-c', file, word])
      const { code, stdout, stderr } = await runChancery(['-c', file, word])
      return { code, output: stdout + stderr }
    }

    for (const word of ['--validate-only', 'serve'])
      test(`${word}: settings that the module refuses, in a sentence that names the key`, async () => {
        const { code, output } = await run(configWith({ extension_settings: { command: 'sign' } }), word)
        assert.equal(code, 1, output)
        assert.match(
          output,
          /^chancery: ca\.extension_settings: \S+#CommandCa refuses them: command must be a list: a program and its arguments$/m,
        )
      })

    test('--validate-only says what a module can do, and which file of roots is missing', async () => {
      const good = await run(configWith({}), '--validate-only')
      assert.equal(good.code, 0, good.output)
      assert.match(good.output, /^CA module \S+#CommandCa with issue, revoke, checkHealth$/m)
      const { settings } = place.ca
      const extension_settings = { ...settings, trust_anchors: ['/nowhere/root.pem'] }
      const { code, output } = await run(configWith({ extension_settings }), '--validate-only')
      assert.equal(code, 1)
      assert.match(output, /^ca\.extension_settings\.trust_anchors: \/nowhere\/root\.pem: cannot be read: ENOENT/m)
    })
  })

  test('health shows the module without its folder, metrics by its name', async () => {
    const health = await send({ method: 'GET', url: `${place.service.baseUrl}/healthz` })
    const { backends } = health.json.checks.ca_backend
    assert.deepEqual(backends['ext:command-ca.js#CommandCa'], { status: 'ok' })
    const { text } = await send({ method: 'GET', url: `${place.service.baseUrl}/metrics` })
    assert.match(
      text,
      /service_backend_requests_total\{backend="ext:[^"]+#CommandCa",operation="issue",result="issued"\} [1-9]/,
    )
  })
})
