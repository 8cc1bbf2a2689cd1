/**
 * A signer with several issuers: a CRL for each, name constraints, alternate chains, and a certificate that is renewed.
 * The signer reads its issuers again at SIGHUP, so what changes of an issuer needs no further start.
 */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { type Authority, constraintsOn, makeAuthority } from '../signer/authority.ts'
import { TestSigner } from '../signer/daemon.ts'
import {
  csrFor,
  JOSE,
  locationOf,
  type Obtained,
  pemToDer,
  registeredClient,
  revoke,
  send,
  serialOf,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { readCrl } from '../support/crl.ts'
import { rowsIn } from '../support/database.ts'
import { chancery, operate } from '../support/operator.ts'
import { startTestService } from '../support/service.ts'
import { FOR_SERVERS } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

const [root, anotherRoot] = ['Root', 'Another Root'].map((name) => makeAuthority('P-256', { name })) as [
  Authority,
  Authority,
]
const authorities = {
  narrow: makeAuthority('P-256', {
    name: 'Narrow',
    constraints: constraintsOn({ dns: ['corp.test'] }, { dns: ['secret.corp.test'] }),
  }),
  ed: makeAuthority('Ed25519'),
  open: makeAuthority('P-256', { name: 'Open' }),
  crossed: makeAuthority('P-256', { name: 'Crossed', by: root }),
  renewed: makeAuthority('P-256', { name: 'Renewed' }),
}
const PROFILES = {
  default: 'narrow',
  other: 'ed',
  lab: 'open',
  crossed: 'crossed',
  renewed: 'renewed',
}

describe('several issuers', () => {
  const signer = new TestSigner(authorities, { policyYaml: '{ max_crl_validity_days: 2 }' })
  const at = (name: string) => signer.at(name)
  before(async () => {
    signer.write()
    writeFileSync(at('root.pem'), root.certificatePem)
    editSigner('crossed', 'chain: root.pem')
    await signer.launch()
  })
  after(() => signer.end())
  const { service, responder, client } = acmeScene(() => {
    const profiles = Object.entries(PROFILES).map(([name, issuer]) => [name, { ...FOR_SERVERS, issuer }])
    const ca = { signer: signer.section, profiles: Object.fromEntries(profiles) }
    return startTestService({ fronts: 1, config: { crl: { enabled: true }, ca } })
  })

  const fetchCrl = async (name: string) => (await send({ method: 'GET', url: `${service.baseUrl}/crl${name}` })).body
  const listed = async (name: string) => readCrl(await fetchCrl(name)).entries.map(({ serial }) => serial)

  /** The signer reads its issuers again; each thread of the service learns of that by itself. */
  async function hangUp(): Promise<void> {
    const read = () => signer.daemon.output().match(/issuers read again/g)?.length ?? 0
    const before = read()
    signer.daemon.process.kill('SIGHUP')
    await until('the issuers are read again', () => read() > before)
  }

  function editSigner(of: string, line: string): void {
    const text = readFileSync(signer.files.config, 'utf8')
    writeFileSync(
      signer.files.config,
      text.replace(`certificate: ${of}.pem\n`, (found) => `${found}    ${line}\n`),
    )
  }

  describe('lists of several issuers (RFC 5280 §5)', () => {
    test('each has a list of its own; the bare path serves that of the default profile', async () => {
      const [bare, narrow, ed] = [await fetchCrl(''), await fetchCrl('/narrow'), await fetchCrl('/ed')]
      assert.deepEqual(bare, narrow)
      assert.ok(narrow.includes(authorities.narrow.keyIdentifier) && !narrow.includes(authorities.ed.keyIdentifier))
      assert.ok(ed.includes(authorities.ed.keyIdentifier))
    })

    test('a certificate names the list of its issuer, and is revoked there alone', async () => {
      const { der } = await client.obtain(['other.test'], responder, { order: { profile: 'other' } })
      assert.deepEqual(parseCertificate(der).tbs.crlDistributionPointUrls, [`${service.baseUrl}/crl/ed`])
      const revoked = await revoke(client, der)
      assert.equal(revoked.status, 200)
      const serial = serialOf(der)
      await until('it is listed', async () =>
        readCrl(await fetchCrl('/ed')).entries.some((entry) => entry.serial === serial),
      )
      assert.deepEqual(readCrl(await fetchCrl('/narrow')).entries, [])
    })
  })

  describe('an issuer with name constraints (RFC 5280 §4.2.1.10)', () => {
    const countOf = async (table: 'orders' | 'authorizations') =>
      (await rowsIn(service.database, `SELECT FROM ${table}`)).length

    test('new-order answers rejectedIdentifier, and nothing is left to validate', async () => {
      const before = [await countOf('orders'), await countOf('authorizations')]
      for (const name of ['x.lab.test', 'b.secret.corp.test']) {
        const refusal = await client.newOrder([name])
        assert.equal(refusal.status, 400, refusal.text)
        assert.equal(refusal.json.type, 'urn:ietf:params:acme:error:rejectedIdentifier')
        assert.match(refusal.json.detail, /name constraints of the CA/)
      }
      const several = await client.newOrder(['x.lab.test', 'www.corp.test', 'y.lab.test'])
      assert.equal(several.json.type, 'urn:ietf:params:acme:error:compound')
      assert.equal(several.json.subproblems.length, 2)
      assert.deepEqual([await countOf('orders'), await countOf('authorizations')], before)
    })

    test('what is inside is issued, and OpenSSL accepts it', async () => {
      const { der } = await client.obtain(['www.corp.test'], responder)
      const [root, leaf] = [at('narrow.pem'), at('leaf.pem')]
      writeFileSync(leaf, encodePem('CERTIFICATE', der))
      execFileSync('openssl', ['verify', '-x509_strict', '-CAfile', root, leaf], { stdio: 'pipe' })
    })

    test('a profile with another issuer is not bound by them; a pre-authorization may be for either', async () => {
      await client.obtain(['x.lab.test'], responder, { order: { profile: 'lab' } })
      const identifier = { type: 'dns', value: 'y.lab.test' }
      assert.equal((await client.post(client.directory['newAuthz'] as string, { identifier })).status, 201)
    })

    test('finalize refuses what an issuer no longer certifies; the order stays ready', async () => {
      const order = await client.newOrder(['z.lab.test'], { profile: 'lab' })
      await client.authorize(order, responder)
      // The same id and key, and another certificate with constraints, as after a renewal by the root.
      const renewed = makeAuthority('P-256', {
        name: 'Open',
        keys: authorities.open,
        constraints: constraintsOn({ dns: ['open.test'] }),
      })
      writeFileSync(at('open.pem'), renewed.certificatePem)
      await hangUp()
      await until(
        'new-order refuses it',
        async () => (await client.newOrder(['q.test'], { profile: 'lab' })).status === 400,
      )

      const refusal = await client.post(order.json.finalize, { csr: await csrFor(['z.lab.test']) })
      assert.equal(refusal.json.type, 'urn:ietf:params:acme:error:rejectedIdentifier', refusal.text)
      assert.match(refusal.json.detail, /z\.lab\.test is outside/)
      assert.equal((await client.post(locationOf(order))).json.status, 'ready')
      assert.equal(readFileSync(signer.files.auditFile, 'utf8').includes('z.lab.test'), false)
    })
  })

  describe('the chains of a certificate (RFC 8555 §7.4.2)', () => {
    let obtained: Obtained
    before(async () => {
      obtained = await client.obtain(['chains.test'], responder, { order: { profile: 'crossed' } })
      const cross = makeAuthority('P-256', { name: 'Crossed', keys: authorities.crossed, by: anotherRoot })
      writeFileSync(at('cross.pem'), cross.certificatePem + anotherRoot.certificatePem)
      editSigner('crossed', 'alternate_chains: [cross.pem]')
      await hangUp()
      await until('an alternate chain', async () => {
        return (await client.post(obtained.certificateUrl)).links['alternate'] !== undefined
      })
    })

    async function fetchAs(accept: string | undefined, url = obtained.certificateUrl) {
      const body = JSON.stringify(await client.jws(url))
      return send({ url, headers: { ...JOSE, ...(accept !== undefined && { Accept: accept }) }, body })
    }

    test('the default chain names the alternate one, also of a certificate that is older than it', async () => {
      const answer = await client.post(obtained.certificateUrl)
      assert.equal(answer.text, obtained.chain)
      assert.deepEqual(answer.links['alternate'], [`${obtained.certificateUrl}/1`])
    })

    test('the alternate chain starts with the same certificate and leads to the other root', async () => {
      const answer = await client.post(`${obtained.certificateUrl}/1`)
      assert.equal(answer.status, 200)
      assert.equal(answer.headers['content-type'], 'application/pem-certificate-chain')
      const [leaf, cross, ...more] = pemToDer(answer.text).map((der) => new X509Certificate(der))
      assert.ok(leaf && cross)
      assert.deepEqual(leaf.raw, obtained.der)
      assert.ok(leaf.verify(cross.publicKey))
      assert.equal(cross.issuer, 'CN=Another Root')
      assert.equal(more.length, 0, 'the root is left out')
      assert.deepEqual(answer.links['alternate'], [obtained.certificateUrl])
    })

    test('a chain that is not there is 404, as is another spelling of one that is', async () => {
      for (const tail of ['/2', '/0', '/01', '/1/', '/1a', '/', '/100', '/-1'])
        assert.equal((await client.post(`${obtained.certificateUrl}${tail}`)).status, 404, tail)
    })

    test('an alternate chain is fetched by POST-as-GET of its own URL, by its account only', async () => {
      const url = `${obtained.certificateUrl}/1`
      assert.equal((await send({ method: 'GET', url })).status, 405)
      assert.equal((await client.post(url, {})).json.type, 'urn:ietf:params:acme:error:malformed')
      assert.equal((await client.post(url, undefined, { header: { url: obtained.certificateUrl } })).status, 403)
      const other = await registeredClient(service.directoryUrl)
      assert.equal((await other.post(url)).status, 403)
    })

    const CERTIFICATE_RANGES = [
      undefined,
      '*/*',
      'application/json',
      'application/pkix-cert',
      'application/pkcs7-mime, text/html',
      'application/pem-certificate-chain;q=0',
      '*/*;q=0',
      'application/pkix-cert;q=much',
      ',',
    ]
    for (const accept of CERTIFICATE_RANGES) {
      test(`Accept: ${accept ?? '(none)'} gets the PEM chain (§7.4.2, RFC 9110 §12.5.1)`, async () => {
        const answer = await fetchAs(accept)
        assert.equal(answer.status, 200)
        assert.equal(answer.headers['content-type'], 'application/pem-certificate-chain')
        assert.equal(answer.text, obtained.chain)
      })
    }
  })

  /** Same name and key: it has one serial number once, and its list goes on whichever of its certificates is named. */
  describe('an issuer whose certificate was renewed', () => {
    let former: Obtained
    before(async () => {
      former = await obtain('former.test')
      const renewed = makeAuthority('P-256', { name: 'Renewed', keys: authorities.renewed })
      writeFileSync(at('renewed.pem'), renewed.certificatePem)
      await hangUp()
      const [row] = await rowsOf(former)
      await until('the renewed one issues', async () => {
        const [next] = await rowsOf(await obtain('next.test'))
        return next?.issuer !== row?.issuer
      })
    })

    const obtain = (name: string) => client.obtain([name], responder, { order: { profile: 'renewed' } })
    const untilListed = (certificate: Obtained) =>
      until('its CRL entry', async () => (await listed('/renewed')).includes(serialOf(certificate.der)))

    interface Row {
      issuer: string
      has_account: boolean
      is_revoked: boolean
    }
    const rowsOf = async (certificate: Obtained): Promise<Row[]> =>
      rowsIn<Row>(
        service.database,
        `SELECT encode(issuer_fingerprint, 'hex') AS issuer, account_id IS NOT NULL AS has_account,
              revoked_at IS NOT NULL AS is_revoked
         FROM certificates WHERE serial_number = decode($1, 'hex') ORDER BY id`,
        [serialOf(certificate.der)],
      )

    /** A second row under the issuer's other certificate, as older builds recorded it; its der is empty when unseen. */
    const plantCopy = async (certificate: Obtained, as: 'imported' | 'unseen') =>
      rowsIn(
        service.database,
        `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der, spki_sha256,
                                 revoked_at, revocation_reason)
       SELECT ('ffffffff-0000-7000-8000-' || right(c.id::text, 12))::uuid, c.serial_number, i.fingerprint, c.names, c.not_before,
              c.not_after, CASE WHEN $2 THEN '' ELSE c.der END, c.spki_sha256,
              CASE WHEN $2 THEN date_trunc('second', now() - interval '1 hour') END, CASE WHEN $2 THEN 4 END
         FROM certificates c JOIN issuers i ON encode(i.fingerprint, 'hex') = $3
        WHERE c.serial_number = decode($1, 'hex')`,
        [serialOf(certificate.der), as === 'unseen', (await rowsOf(former))[0]?.issuer],
      )

    test('has its certificates known by its CRL and by import, whichever of the two issued them', async () => {
      const revoked = await obtain('revoked.test')
      assert.notEqual((await rowsOf(former))[0]?.issuer, (await rowsOf(revoked))[0]?.issuer)
      assert.equal((await revoke(client, revoked.der)).status, 200)
      await operate(service, 'certificates', 'revoke', serialOf(former.der), '--reason', '4')
      await operate(service, 'crl', 'rebuild')
      const file = path.join(service.folder, 'last.crl')
      writeFileSync(file, await fetchCrl('/renewed'))
      const outcome = JSON.parse(await operate(service, 'certificates', 'revoke', '--from-crl', file, '--json'))
      assert.deepEqual(outcome, { entries: 2, revoked: 0, recorded: 0, known: 2 })

      const files = [former, revoked].map(({ chain }, index) => {
        const pem = path.join(service.folder, `${index}.pem`)
        writeFileSync(pem, chain)
        return pem
      })
      const { certificates } = JSON.parse(await operate(service, 'import', 'certificates', ...files, '--json'))
      assert.deepEqual([certificates.read, certificates.known], [2, 2])
      for (const certificate of [former, revoked]) assert.equal((await rowsOf(certificate)).length, 1)

      const later = await obtain('later.test')
      assert.equal((await revoke(client, later.der)).status, 200)
      await untilListed(later)
    })

    test('has its certificate revoked by an operator who names the other certificate', async () => {
      const certificate = await obtain('named.test')
      const [other] = await rowsOf(former)
      await operate(service, 'certificates', 'revoke', serialOf(certificate.der), '--issuer', other?.issuer ?? '')
      const [row, ...more] = await rowsOf(certificate)
      assert.deepEqual([row?.is_revoked, row?.issuer === other?.issuer, more], [true, false, []])
      await untilListed(certificate)
    })

    test('has both rows of one certificate revoked by its account, and lists it once', async () => {
      const certificate = await obtain('imported.test')
      await plantCopy(certificate, 'imported')
      assert.equal((await revoke(client, certificate.der)).status, 200)
      assert.deepEqual(
        (await rowsOf(certificate)).map(({ is_revoked }) => is_revoked),
        [true, true],
      )
      assert.equal((await revoke(client, certificate.der)).status, 400)
      await untilListed(certificate)
      assert.equal((await listed('/renewed')).filter((serial) => serial === serialOf(certificate.der)).length, 1)
    })

    test('has both rows of one certificate revoked by its operator, with the earlier date on the list', async () => {
      const certificate = await obtain('unseen.test')
      await plantCopy(certificate, 'unseen')
      await operate(service, 'certificates', 'revoke', serialOf(certificate.der), '--reason', '1')
      assert.deepEqual(
        (await rowsOf(certificate)).map(({ is_revoked, has_account }) => [is_revoked, has_account]),
        [
          [true, true],
          [true, false],
        ],
      )
      assert.equal((await chancery(service, 'certificates', 'revoke', serialOf(certificate.der))).code, 1)
      await operate(service, 'crl', 'rebuild')
      const entries = readCrl(await fetchCrl('/renewed')).entries.filter(
        ({ serial }) => serial === serialOf(certificate.der),
      )
      assert.deepEqual(
        entries.map(({ reason }) => reason),
        [4],
      )
      assert.equal((await send({ method: 'GET', url: `${service.baseUrl}/readyz` })).status, 200)
    })

    test('has its list told of rows that it leaves out', () => {
      assert.ok(service.log.some((line) => /crl_duplicates/.test(JSON.stringify(line))))
    })
  })
})
