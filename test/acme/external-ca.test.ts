/** A service whose certificates an external CA issues over TLS: the right way, and in every way that is wrong. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { BASIC_CONSTRAINTS, dns, extension, hex } from '../corpus/der.ts'
import { attributes, extensionRequest, microsoftRequest, san } from '../corpus/requests.ts'
import { type AcmeClient, base64url, pemToDer, type Responder, revoke, send, serialOf } from '../support/acme-client.ts'
import { adminConfig, administrator } from '../support/admin.ts'
import { aServiceBehindACa, CREDENTIAL, csrFor } from '../support/cas/behind-external-ca.ts'
import type { Behaviour, CaRequest, ExternalCa } from '../support/cas/external-ca.ts'
import { loopbackCertificate, writeCertificate } from '../support/certificates.ts'
import { operate } from '../support/operator.ts'
import type { TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { aCsr, P256_KEY, x509 } from '../unit/shared/pki/support.ts'

const folder = temporaryFolder()
const tls = await loopbackCertificate()
const ca_cert_path = writeCertificate(folder, 'ca-tls', tls).cert

describe('a service behind an external CA', () => {
  const settings = {
    external: { ca_cert_path, timeout_seconds: 20, max_retries: 1, retry_delay_seconds: 0.05 },
    deferred_signing_timeout: 120,
    failover: { probe_seconds: 1 },
    received_lint: 'refuse',
  }
  const place = aServiceBehindACa(settings, { config: adminConfig(), isAway: true, tls })
  const { query, ready, finalized, certificatesOf } = place
  let ca: ExternalCa
  let service: TestService
  let client: AcmeClient
  let responder: Responder
  before(() => {
    ca = place.ca()
    service = place.service()
    client = place.client()
    responder = place.responder()
  })

  test('an instance that starts while the CA is away is not ready, and gets ready by itself', async () => {
    const readyz = async () => (await send({ method: 'GET', url: `${service.baseUrl}/readyz` })).status
    assert.equal(await readyz(), 503)
    await ca.start()
    await until('ready', async () => (await readyz()) === 200)
  })

  const alarmOf = (url: string) =>
    service.untilLogged('an alarm', (line) => line['event'] === 'alarm' && line['orderId'] === url.split('/').at(-1))

  test('delivers what the CA issues, says who issued it, and sends it what it needs', async () => {
    const { order, name, url } = await finalized()
    assert.equal(order.json.status, 'valid')
    const { text, links } = await client.post(order.json.certificate)
    const [leaf, issuer] = text.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []
    assert.equal(new X509Certificate(leaf as string).subjectAltName, `DNS:${name}`)
    assert.equal(new X509Certificate(issuer as string).subject, 'CN=Issuing')
    assert.equal(links['alternate'], undefined)
    assert.deepEqual(
      (await certificatesOf(url)).map(({ backend }) => backend),
      ['external'],
    )

    const request = ca.requests.at(-1) as CaRequest
    assert.equal(request.headers['x-api-key'], CREDENTIAL)
    const { csr, ...members } = request.body as Record<string, unknown>
    assert.match(csr as string, /^-----BEGIN CERTIFICATE REQUEST-----/)
    assert.deepEqual(Object.keys(members), [
      'profile',
      'validity_days',
      'not_before',
      'not_after',
      'identifiers',
      'idempotency_key',
    ])
    assert.deepEqual([members['profile'], members['validity_days']], ['default', 90])
    assert.deepEqual(members['identifiers'], [{ type: 'dns', value: name }])
  })

  test('retries a CA that is not available, with the same idempotency key', async () => {
    ca.behave('unavailable', 'unavailable', 'issue')
    const before = ca.requests.length
    assert.equal((await finalized()).order.json.status, 'valid')
    const keys = ca.requests.slice(before).map(({ body }) => body.idempotency_key)
    assert.equal(keys.length, 3)
    assert.equal(new Set(keys).size, 1)
  })

  for (const behaviour of ['pending', 'pending by 200'] as const)
    test(`waits for a certificate that comes later (${behaviour})`, async () => {
      ca.behave(behaviour)
      ca.deliver(false)
      const { order, name } = await ready()
      const csr = await csrFor(name)
      const reply = await client.post(order.json.finalize, { csr: base64url(csr) })
      assert.equal(reply.json.status, 'processing')
      assert.ok(Number(reply.headers['retry-after']) > 0)
      ca.deliver(true)
      assert.equal((await client.settled(order.headers.location as string)).json.status, 'valid')
    })

  /** What the CA does → what the log says of it. */
  const WRONG: readonly (readonly [Behaviour, RegExp])[] = [
    ['wrong key', /its key is not that of the CSR/],
    ['extra name', /names that the order has not: dns:extra.test/],
    ['other issuer', /does not end at one of the trust_anchors/],
    ['truncated PEM', /is no PEM/],
    ['10 MB body', /no answer of external/],
    ['redirect', /neither a chain nor a promise: 307/],
    ['200 with an error', /neither a chain nor a promise: 200/],
    ['broken', /answered 500/],
    ['lost answer', /no answer of external/],
  ]
  for (const [behaviour, logged] of WRONG)
    test(`${behaviour}: the order fails with an alarm, and nothing of the answer reaches the client`, async () => {
      ca.behave(behaviour)
      const { order, url } = await finalized()
      assert.equal(order.json.status, 'invalid')
      assert.equal(order.json.error.type, 'urn:ietf:params:acme:error:serverInternal')
      assert.doesNotMatch(order.text, /SECRET|external|trust_anchors/)
      assert.deepEqual(await certificatesOf(url), [])
      assert.match(JSON.stringify(await alarmOf(url)), logged)
      // Asked again it might issue again, and it does not know its idempotency keys.
      assert.deepEqual(await query('SELECT FROM csr_issuances'), [])
    })

  test('a finding of the lint fails the order with an alarm where ca.received_lint is refuse, and the certificate is revoked at the CA', async () => {
    ca.behave('short serial')
    const { order, url } = await finalized()
    assert.equal(order.json.status, 'invalid')
    assert.deepEqual(await certificatesOf(url), [])
    const alarm = await alarmOf(url)
    assert.match(JSON.stringify(alarm), /serial number is shorter/)
    const serial = serialOf(ca.issued.at(-1) as string)
    await until('its revocation', () => ca.revoked.includes(serial))
  })

  // RFC 8555 §7.4: no content other than that requested.
  test('a certificate whose period is not the one requested fails the order with an alarm', async () => {
    ca.behave('issue')
    const notAfter = new Date(Date.now() + 5 * 86_400_000).toISOString()
    const { order, url } = await finalized({ notAfter })
    assert.equal(order.json.status, 'invalid')
    const alarm = await alarmOf(url)
    assert.match(JSON.stringify(alarm), /it ends at .* as requested/)
    assert.equal(ca.requests.at(-1)?.body.not_after.slice(0, 19), notAfter.slice(0, 19))
  })

  test('a CSR for a CA certificate or another name is refused before the CA, which may copy it, is asked', async () => {
    const { order, name } = await ready()
    const csr = await aCsr(P256_KEY, {
      names: [{ type: 'dns', value: name }],
      extensions: [new x509.BasicConstraintsExtension(true)],
    })
    const besideOurs = (other: Buffer) => attributes(extensionRequest(san(dns(name))), microsoftRequest(other))
    const refusals: [csr: Buffer, detail: RegExp][] = [
      [csr, /cA in basicConstraints/],
      [besideOurs(extension(BASIC_CONSTRAINTS, hex('30030101ff'))), /cA in basicConstraints/],
      [besideOurs(san(dns('other.test'))), /names other\.test, which the order has not/],
    ]
    for (const [request, detail] of refusals) {
      const refusal = await client.post(order.json.finalize, { csr: base64url(request) })
      assert.equal(refusal.json.type, 'urn:ietf:params:acme:error:badCSR')
      assert.match(refusal.json.detail, detail)
    }
    // Beside it, what the tests before had issued wrongly is being revoked.
    assert.deepEqual(
      ca.requests.filter(({ body }) => JSON.stringify(body?.identifiers ?? []).includes(name)),
      [],
    )
    assert.equal((await client.post(order.headers.location as string)).json.status, 'ready')
  })

  test('what was issued wrongly is revoked at the CA', async () => {
    const wrong = ca.issued.filter((pem) => /DNS:extra.test/.test(new X509Certificate(pem).subjectAltName ?? ''))
    const serial = serialOf(wrong[0] as string)
    await until('its revocation', () => ca.revoked.includes(serial))
  })

  test('a refusal is final, without an alarm', async () => {
    ca.behave('refuse')
    const { order, url } = await finalized()
    assert.equal(order.json.status, 'invalid')
    assert.doesNotMatch(order.text, /SECRET/)
    const orderId = url.split('/').at(-1)
    await service.untilLogged(
      'the refusal',
      (line) => line['event'] === 'backend_refused' && line['orderId'] === orderId,
    )
  })

  test('the same certificate twice: the second order fails, and the first one keeps its certificate', async () => {
    ca.behave('issue')
    const name = 'twice.test'
    const obtain = async () => {
      const order = await client.newOrder([name])
      await client.authorize(order, responder)
      const csr = await csrFor(name)
      await client.post(order.json.finalize, { csr: base64url(csr) })
      return client.settled(order.headers.location as string)
    }
    assert.equal((await obtain()).json.status, 'valid')
    const serial = serialOf(ca.issued.at(-1) as string)
    ca.behave('the one before')
    assert.equal((await obtain()).json.status, 'invalid')
    assert.ok(!ca.revoked.includes(serial), 'it is not revoked')
    assert.deepEqual(
      await query("SELECT FROM backend_revocations WHERE encode(der, 'hex') LIKE $1", [`%${serial}%`]),
      [],
    )
  })

  test('a revocation is asked for until the CA has confirmed it', async () => {
    ca.behave('issue')
    // Those of the tests before would use up its refusals.
    const isAllRevoked = async () => (await query('SELECT FROM backend_revocations')).length === 0
    await until('the other revocations', isAllRevoked)
    ca.failRevocations(2)
    const { order } = await finalized()
    const { text } = await client.post(order.json.certificate)
    const [leaf] = pemToDer(text) as [Buffer]
    assert.equal((await revoke(client, leaf, 4)).status, 200)
    await until('its confirmation', () => ca.revoked.includes(serialOf(leaf)))
    const asked = ca.requests.filter(({ path, body }) => path === '/revoke' && body.serial_number === serialOf(leaf))
    assert.equal(asked.length, 3)
    assert.equal(asked[0]?.body.reason, 4)
    await until('an empty list', isAllRevoked)
  })

  test('an administrator sees what the CA has not confirmed, and gives it up', async () => {
    ca.failRevocations(1_000)
    const { order, url } = await finalized()
    const { text } = await client.post(order.json.certificate)
    const [leaf] = pemToDer(text) as [Buffer]
    await revoke(client, leaf)
    const admin = await administrator(service, 'revoker')
    const shown = await until('a failed attempt', async () => {
      const { json } = await admin.get('/backend-revocations')
      return json[0]?.attempts > 0 && json
    })
    const [row] = await certificatesOf(url)
    const { certificate_id, backend, serial_number, error } = shown[0]
    const expected = [row?.['id'], 'external', serialOf(leaf)]
    assert.deepEqual([certificate_id, backend, serial_number], expected)
    assert.match(error, /503/)
    assert.equal((await admin.send('DELETE', `/backend-revocations/${certificate_id}`)).status, 204)
    assert.equal((await admin.send('DELETE', `/backend-revocations/${certificate_id}`)).status, 404)
    assert.deepEqual((await admin.get('/backend-revocations')).json, [])
    ca.failRevocations(0)
  })

  for (const isRevoked of [false, true])
    test(`a certificate that a restored database lacks is imported, and its revocation ${isRevoked ? 'before' : 'after'} the import reaches the CA`, async () => {
      ca.behave('serial with a sign octet')
      const { order, url } = await finalized()
      const { text } = await client.post(order.json.certificate)
      const [leaf] = pemToDer(text) as [Buffer]
      const serial = serialOf(leaf)
      const file = path.join(service.folder, `${serial}.pem`)
      writeFileSync(file, text)
      const orderId = url.split('/').at(-1)
      const forget = `DELETE FROM certificates WHERE order_id = $1 RETURNING encode(issuer_fingerprint, 'hex') AS issuer`
      const issuer = (await query(forget, [orderId]))[0]?.['issuer'] as string
      await query('DELETE FROM orders WHERE id = $1', [orderId])

      if (isRevoked) await operate(service, 'certificates', 'revoke', serial, '--issuer', issuer)
      const account = client.kid.split('/').at(-1) as string
      const imported = async () => {
        const printed = await operate(service, 'import', 'certificates', file, '--account', account, '--json')
        const { new: fresh, known } = JSON.parse(printed).certificates
        return [fresh, known]
      }
      assert.deepEqual(await imported(), [1, 0])
      assert.deepEqual(await imported(), [0, 1])
      if (!isRevoked) assert.equal((await revoke(client, leaf)).status, 200)
      await until('its revocation by the CA', () => ca.revoked.includes(serial))
    })

  test('of two issuers that have given one serial number, ?issuer= chooses', async () => {
    const { url } = await finalized()
    const [row] = await certificatesOf(url)
    const serial = Buffer.from(row?.['serial_number'] as Buffer).toString('hex')
    const another = 'ab'.repeat(32)
    await query(
      `INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
       SELECT 'ffffffff-ffff-7fff-bfff-ffffffffffff', serial_number, decode($2, 'hex'), '{}', not_before, not_after, ''
         FROM certificates WHERE id = $1`,
      [row?.['id'], another],
    )
    const admin = await administrator(service, 'reader')
    const issuerOf = async (path: string) => (await admin.get(path)).json.issuer_fingerprint
    const own = Buffer.from(row?.['issuer_fingerprint'] as Buffer).toString('hex')
    assert.equal(await issuerOf(`/certificates/${serial}`), own, 'that of an account, though the other is newer')
    assert.equal(await issuerOf(`/certificates/${serial}?issuer=${another}`), another)
    assert.equal((await admin.send('POST', `/certificates/${serial}/revoke`, {})).status, 409)
    const revoked = await admin.send('POST', `/certificates/${serial}/revoke`, { issuer: own })
    assert.deepEqual([revoked.status, revoked.json.issuer_fingerprint], [200, own])
  })

  test('health and metrics show the backend', async () => {
    const health = await send({ method: 'GET', url: `${service.baseUrl}/healthz` })
    assert.deepEqual(health.json.checks.ca_backend, { status: 'ok', backends: { external: { status: 'ok' } } })
    const { text } = await send({ method: 'GET', url: `${service.baseUrl}/metrics` })
    assert.match(text, /service_backend_requests_total\{backend="external",operation="issue",result="issued"\} [1-9]/)
    assert.match(text, /service_backend_circuit_open\{backend="external"\} 0/)
  })
})
