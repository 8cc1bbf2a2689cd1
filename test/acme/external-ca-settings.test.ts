/** Settings of an external CA, end to end: whom TLS trusts, what a finding of the lint means, and a requested period. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { aServiceBehindACa } from '../support/behind-external-ca.ts'
import { loopbackCertificate, writeCertificate } from '../support/certificates.ts'
import { until } from '../support/until.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'chancery-external-tls-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const tls = await loopbackCertificate()
const ca_cert_path = writeCertificate(folder, 'ca-tls', tls).cert

describe('an external CA over TLS with ca.external.ca_cert_path, and ca.received_lint: warn', () => {
  const settings = { external: { ca_cert_path }, deferred_signing_timeout: 120, received_lint: 'warn' }
  const place = aServiceBehindACa(settings, { tls })

  test('is asked, and told of revocations', async () => {
    const { order } = await place.finalized()
    assert.equal(order.json.status, 'valid', order.text)
    const client = place.client()
    const leaf = new X509Certificate((await client.post(order.json.certificate)).text)
    const certificate = leaf.raw.toString('base64url')
    assert.equal((await client.post(client.directory['revokeCert'] as string, { certificate })).status, 200)
    await until('its revocation', () => place.ca().revoked.includes(leaf.serialNumber.toLowerCase()))
  })

  test('a finding of the lint is a line of the log, and the certificate is delivered', async () => {
    place.ca().behave('short serial')
    const { order, url } = await place.finalized()
    assert.equal(order.json.status, 'valid')
    const line = await place.service().untilLogged('a warning', ({ event }) => event === 'received_lint')
    assert.match(JSON.stringify(line['findings']), /serial number is shorter/)
    assert.equal(line['orderId'], url.split('/').at(-1))
    assert.ok(!place.service().log.some(({ event }) => event === 'alarm'))
  })
})

describe('an external CA over TLS without it', () => {
  const place = aServiceBehindACa({ deferred_signing_timeout: 3 }, { tls })

  test('is sent nothing; the order ends in its time, and the log says why', async () => {
    const { order } = await place.finalized()
    assert.equal(order.json.status, 'invalid')
    const failed = await place.service().untilLogged('the error', ({ event }) => event === 'backend_failed')
    assert.match(String(failed['reason']), /self-signed|SELF_SIGNED/i)
    assert.equal(failed['mayHaveIssued'], false)
    assert.deepEqual(place.ca().requests, [])
  })
})

describe('a finding of the lint with ca.received_lint: refuse', () => {
  const place = aServiceBehindACa({ deferred_signing_timeout: 120, received_lint: 'refuse' })

  test('fails the order with an alarm, and the certificate is revoked at the CA', async () => {
    place.ca().behave('short serial')
    const { order, url } = await place.finalized()
    assert.equal(order.json.status, 'invalid')
    assert.deepEqual(await place.certificatesOf(url), [])
    const alarm = await place.service().untilLogged('an alarm', ({ event }) => event === 'alarm')
    assert.match(JSON.stringify(alarm), /serial number is shorter/)
    const serial = new X509Certificate(place.ca().issued[0] as string).serialNumber.toLowerCase()
    await until('its revocation', () => place.ca().revoked.includes(serial))
  })

  // RFC 8555 §7.4: no content other than that requested.
  test('a certificate whose period is not the one requested fails the order with an alarm', async () => {
    place.ca().behave('issue')
    const notAfter = new Date(Date.now() + 5 * 86_400_000).toISOString()
    const { order, url } = await place.finalized({ notAfter })
    assert.equal(order.json.status, 'invalid')
    const orderId = url.split('/').at(-1)
    const alarm = await place
      .service()
      .untilLogged('an alarm', (line) => line['event'] === 'alarm' && line['orderId'] === orderId)
    assert.match(JSON.stringify(alarm), /it ends at .* as requested/)
    assert.equal(place.ca().requests.at(-1)?.body.not_after.slice(0, 19), notAfter.slice(0, 19))
  })
})
