/** Finalize, certificate download and revocation (RFC 8555 §7.4, §7.4.2, §7.6), also of IP identifiers. */

import assert from 'node:assert/strict'
import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import {
  type AcmeClient,
  type Answer,
  accountKeyOf,
  base64url,
  createAcmeClient,
  csrFor,
  idOf,
  locationOf,
  pemToDer,
  type Responder,
  registeredClient,
  revoke,
  startResponder,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { rowsIn } from '../support/database.ts'
import { P256_KEY, P384_KEY, P521_KEY, RSA_KEY, type TestKey, x509 } from '../unit/shared/pki/support.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'

function freshKey(): TestKey {
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return { ...P256_KEY, ...pair, spki: pair.publicKey.export({ type: 'spki', format: 'der' }) }
}

function wholeSeconds(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

/** Of a certificate: the names, in order, and whether the extension is critical. */
function subjectNames(der: Buffer): { values: string[]; critical: boolean } {
  const extension = new x509.X509Certificate(der).getExtension(x509.SubjectAlternativeNameExtension)
  assert.ok(extension)
  return { values: extension.names.toJSON().map(({ value }) => String(value)), critical: extension.critical }
}

describe('issuance and revocation', () => {
  const { service, responder, client } = acmeScene('acme')

  async function readyOrder(names: readonly string[], more: object = {}): Promise<Answer> {
    const order = await client.newOrder(names, more)
    await client.authorize(order, responder)
    return order
  }

  test('finalize of a ready order is 200 with its URL and a certificate to fetch (§7.4)', async () => {
    const order = await readyOrder(['final.test'])
    const answer = await client.post(order.json.finalize, { csr: await csrFor(['final.test']) })
    assert.equal(answer.status, 200, answer.text)
    assert.equal(locationOf(answer), locationOf(order))
    assert.equal(answer.json.status, 'valid')
    assert.match(answer.json.certificate, new RegExp(`^${service.baseUrl}/cert/`))
    assert.deepEqual((await client.post(locationOf(order))).json, answer.json)
  })

  test('the chain is PEM, leaf first, each signed by the next, without the root (§7.4.2, §9.1)', async () => {
    const { certificateUrl, chain } = await client.obtain(['chain.test'], responder)
    const answer = await client.post(certificateUrl)
    assert.equal(answer.headers['content-type'], 'application/pem-certificate-chain')
    assert.equal(answer.text, chain)
    const certificates = pemToDer(chain).map((der) => new X509Certificate(der))
    const root = new X509Certificate(readFileSync(service.ca.root))
    assert.ok(certificates.length >= 2)
    for (const [i, certificate] of certificates.entries())
      assert.ok(certificate.verify((certificates[i + 1] ?? root).publicKey), `certificate ${i}`)
    assert.ok(certificates.every(({ fingerprint256 }) => fingerprint256 !== root.fingerprint256))
    assert.match(chain, /^(?:-----BEGIN CERTIFICATE-----\n(?:[A-Za-z0-9+/=]{1,64}\n)+-----END CERTIFICATE-----\n)+$/)
  })

  test('the names are those of the order, the subject is empty and the SAN critical (RFC 5280 §4.1.2.6)', async () => {
    const names = ['one.names.test', 'two.names.test', 'three.names.test']
    const { der } = await client.obtain(names, responder)
    assert.deepEqual(subjectNames(der).values.sort(), [...names].sort())
    assert.equal(subjectNames(der).critical, true)
    assert.equal(new X509Certificate(der).subject ?? '', '')
  })

  test('a common name is granted when the CSR asks for one of the names (§7.4)', async () => {
    const { der } = await client.obtain(['cn.test', 'www.cn.test'], responder, { subject: 'CN=www.cn.test' })
    assert.equal(new X509Certificate(der).subject, 'CN=www.cn.test')
    assert.equal(subjectNames(der).critical, false)
  })

  test('a name that only the common name asks for is in the SAN as well (§7.4)', async () => {
    const { der } = await client.obtain(['only.test'], responder, { subject: 'CN=only.test', csrNames: [] })
    assert.deepEqual(subjectNames(der).values, ['only.test'])
  })

  test('an RSA key is certified', async () => {
    const { der } = await client.obtain(['rsa.test'], responder, { key: RSA_KEY })
    assert.equal(new X509Certificate(der).publicKey.asymmetricKeyType, 'rsa')
  })

  test('validity starts an hour back and ends a second before its last day does (§7.4; RFC 5280 §4.1.2.5)', async () => {
    const before = Math.floor(Date.now() / 1000)
    const { der } = await client.obtain(['validity.test'], responder)
    const { validFrom, validTo } = new X509Certificate(der)
    const [from, to] = [Date.parse(validFrom) / 1000, Date.parse(validTo) / 1000]
    const end = Math.floor(Date.now() / 1000)
    assert.ok(from >= before - 3600 && from <= end - 3600, validFrom)
    assert.equal((to + 1 - from) % 86_400, 0)
  })

  test('the validity that an order asks for is shown and granted (§7.4)', async () => {
    const notBefore = wholeSeconds(Date.now() + 60_000)
    const notAfter = wholeSeconds(Date.now() + 86_400_000)
    const { der, order } = await client.obtain(['asked.test'], responder, { order: { notBefore, notAfter } })
    assert.deepEqual([order.json.notBefore, order.json.notAfter], [notBefore, notAfter])
    const { validFrom, validTo } = new X509Certificate(der)
    assert.deepEqual(
      [validFrom, validTo].map((text) => wholeSeconds(Date.parse(text))),
      [notBefore, notAfter],
    )
  })

  test('an order does not outlive the certificate it asks for (§7.1.3)', async () => {
    const notAfter = wholeSeconds(Date.now() + 3_600_000)
    assert.equal((await client.newOrder(['short.test'], { notAfter })).json.expires, notAfter)
  })

  test('of many finalizes at once one issues, and all see its order (§7.4)', async () => {
    const order = await readyOrder(['race.test'])
    const csr = await csrFor(['race.test'])
    const answers = await Promise.all(Array.from({ length: 8 }, () => client.post(order.json.finalize, { csr })))
    for (const { status, json, text } of answers) {
      if (status === 200) assert.match(json.status, /^(processing|valid)$/)
      else assert.equal(`${status} ${json.type}`, `403 ${PROBLEM}orderNotReady`, text)
      assert.equal(locationOf(answers[0] as Answer), locationOf(order))
    }
    await client.settled(locationOf(order))
    const issued = 'SELECT FROM certificates WHERE order_id = $1'
    assert.equal((await rowsIn(service.database, issued, [idOf(locationOf(order))])).length, 1)
  })

  test('of finalizes with six keys at once, the order is shown to the key of its certificate alone (§7.4)', async () => {
    const order = await readyOrder(['keys.test'])
    const keys = Array.from({ length: 6 }, freshKey)
    const csrs = await Promise.all(keys.map((key) => csrFor(['keys.test'], key)))
    const answers = await Promise.all(csrs.map((csr) => client.post(order.json.finalize, { csr })))
    const { certificate } = (await client.settled(locationOf(order))).json
    const { publicKey } = new X509Certificate(pemToDer((await client.post(certificate)).text)[0] as Buffer)
    const certified = publicKey.export({ type: 'spki', format: 'der' })
    for (const [i, { status, json, text }] of answers.entries()) {
      if (keys[i]?.spki.equals(certified)) assert.equal(status, 200, text)
      else assert.equal(`${status} ${json.type}`, `403 ${PROBLEM}orderNotReady`, text)
    }
  })

  /** Someone who holds the key of a certificate and has no account. */
  async function holderOf(key: TestKey): Promise<AcmeClient> {
    return createAcmeClient(service.directoryUrl, accountKeyOf('ES256', key.privateKey, key.publicKey))
  }

  async function recordedReason(der: Buffer): Promise<unknown> {
    const revoked = 'SELECT revocation_reason AS reason FROM certificates WHERE der = $1 AND revoked_at < now()'
    return (await rowsIn(service.database, revoked, [der]))[0]?.['reason']
  }

  test('the account that ordered revokes: 200, no body, the reason kept (§7.6)', async () => {
    const { der, certificateUrl } = await client.obtain(['revoked.test'], responder)
    const answer = await revoke(client, der, 4)
    assert.equal(answer.status, 200, answer.text)
    assert.equal(answer.body.length, 0)
    assert.equal(await recordedReason(der), 4)
    assert.equal((await client.post(certificateUrl)).status, 200, 'it can still be fetched')
  })

  test('names below localhost are not ordered (RFC 6761 §6.3)', async () => {
    const answer = await client.newOrder(['a.localhost'])
    assert.equal(`${answer.status} ${answer.json.type}`, `400 ${PROBLEM}rejectedIdentifier`)
  })

  test('the key of the certificate revokes, without an account (§7.6)', async () => {
    const key = freshKey()
    const { der } = await client.obtain(['bykey.test'], responder, { key })
    const answer = await revoke(await holderOf(key), der)
    assert.equal(answer.status, 200, answer.text)
    assert.equal(await recordedReason(der), 0)
  })

  const keysOfCertificates = { ES384: P384_KEY, ES512: P521_KEY, RS256: RSA_KEY } as const
  for (const [alg, key] of Object.entries(keysOfCertificates) as [keyof typeof keysOfCertificates, TestKey][])
    test(`a ${key.label} key of a certificate revokes it by ${alg}, whatever accounts may use (§7.6)`, async () => {
      const { der } = await client.obtain([`${alg.toLowerCase()}.test`], responder, { key })
      const holder = await createAcmeClient(service.directoryUrl, accountKeyOf(alg, key.privateKey, key.publicKey))
      const answer = await revoke(holder, der)
      assert.equal(answer.status, 200, answer.text)
    })

  test('an account that revokes is held to the algorithms of accounts (§6.2)', async () => {
    const { der } = await client.obtain(['held.test'], responder)
    const answer = await client.post(
      client.directory['revokeCert'] as string,
      { certificate: base64url(der) },
      { header: { alg: 'ES384' } },
    )
    assert.equal(`${answer.status} ${answer.json.type}`, `400 ${PROBLEM}badSignatureAlgorithm`)
    assert.deepEqual(answer.json.algorithms, ['ES256', 'RS256'])
  })

  test('an account with valid authorizations for all names revokes, one with some does not (§7.6)', async () => {
    const { der } = await client.obtain(['x.both.test', 'y.both.test'], responder)
    const other = await registeredClient(service.directoryUrl)
    await other.authorize(await other.newOrder(['x.both.test']), responder)
    const refused = await revoke(other, der)
    assert.equal(`${refused.status} ${refused.json.type}`, `403 ${PROBLEM}unauthorized`)
    await other.authorize(await other.newOrder(['y.both.test']), responder)
    assert.equal((await revoke(other, der)).status, 200)
  })

  test('of two revocations at once one succeeds and one is alreadyRevoked (§7.6)', async () => {
    const { der } = await client.obtain(['twice.test'], responder)
    const answers = await Promise.all([revoke(client, der), revoke(client, der)])
    assert.deepEqual(answers.map(({ status, json }) => `${status} ${json.type ?? ''}`).sort(), [
      '200 ',
      `400 ${PROBLEM}alreadyRevoked`,
    ])
  })

  test('a key that its holder reports as compromised is certified no more', async () => {
    const key = freshKey()
    const { der } = await client.obtain(['leaked.test'], responder, { key })
    assert.equal((await revoke(await holderOf(key), der, 1)).status, 200)
    const order = await readyOrder(['leaked.test'])
    const refused = await client.post(order.json.finalize, { csr: await csrFor(['leaked.test'], key) })
    assert.equal(`${refused.status} ${refused.json.type}`, `400 ${PROBLEM}badCSR`)
    const another = await client.post(order.json.finalize, { csr: await csrFor(['leaked.test'], freshKey()) })
    assert.equal(another.json.status, 'valid', 'the order is still ready for another key')
  })
})

describe('IP identifiers (RFC 8738)', () => {
  const { service, client } = acmeScene('acme')
  let onIpv4: Responder
  let onIpv6: Responder
  before(async () => {
    onIpv4 = await startResponder(service.http01Port)
    onIpv6 = await startResponder(service.http01Port, '::1')
  })
  after(async () => {
    await onIpv4.close()
    await onIpv6.close()
  })

  const cases = [
    { address: '127.0.0.1', responder: () => onIpv4 },
    { address: '::1', responder: () => onIpv6 },
  ]
  for (const { address, responder } of cases) {
    test(`a certificate for ${address}: asked for, validated at that address, with an iPAddress alone (§3, §4)`, async () => {
      const order = await client.newOrder([address])
      assert.deepEqual(order.json.identifiers, [{ type: 'ip', value: address }])
      const authorization = await client.post(order.json.authorizations[0])
      assert.deepEqual(authorization.json.identifier, { type: 'ip', value: address })
      assert.deepEqual(
        authorization.json.challenges.map(({ type }: { type: string }) => type),
        ['http-01'],
        'the methods for DNS names are not offered (§7)',
      )

      const { der } = await client.obtain([address], responder())
      const san = new x509.X509Certificate(der).getExtension(x509.SubjectAlternativeNameExtension)
      assert.deepEqual(san?.names.toJSON(), [{ type: 'ip', value: address === '::1' ? '::1' : address }])
      assert.equal(san?.critical, true, 'the subject is empty')
      assert.ok(new X509Certificate(der).checkIP(address))
    })
  }

  test('one certificate holds addresses and names', async () => {
    const { der } = await client.obtain(['127.0.0.1', 'mixed.test'], onIpv4)
    const certificate = new X509Certificate(der)
    assert.ok(certificate.checkIP('127.0.0.1') && certificate.checkHost('mixed.test'))
  })

  test('a CSR that writes the address as a dNSName is badCSR (§3)', async () => {
    const order = await client.newOrder(['127.0.0.1', 'wrong-type.test'])
    await client.authorize(order, onIpv4)
    const answer = await client.post(order.json.finalize, { csr: await csrFor(['wrong-type.test']) })
    assert.equal(answer.json.type, `${PROBLEM}badCSR`)
  })

  test('an address as an identifier of type dns is malformed (§3)', async () => {
    const identifiers = [{ type: 'dns', value: '127.0.0.1' }]
    const answer = await client.post(client.directory['newOrder'] as string, { identifiers })
    assert.equal(answer.json.type, `${PROBLEM}malformed`)
  })

  test('two spellings of one IPv6 address are one identifier, in the text of RFC 5952', async () => {
    const identifiers = [{ type: 'ip', value: '0:0:0:0:0:0:0:1' }]
    const newOrder = client.directory['newOrder'] as string
    const answer = await client.post(newOrder, { identifiers })
    assert.deepEqual(answer.json.identifiers, [{ type: 'ip', value: '::1' }])
    const twice = await client.post(newOrder, { identifiers: [...identifiers, { type: 'ip', value: '::1' }] })
    assert.deepEqual(twice.json.identifiers, [{ type: 'ip', value: '::1' }])
  })
})
