/** Renewal advice and blocked keys in the Admin API, over HTTP against a whole service. */

import assert from 'node:assert/strict'
import { createHash, randomUUID, X509Certificate } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { csrFor, type Obtained, send } from '../support/acme-client.ts'
import { allRows } from '../support/admin.ts'
import { issuingOn } from '../support/administered.ts'
import { accountIdOf } from '../support/bound.ts'
import { certIdOf } from '../support/certificate-id.ts'
import { each } from '../support/each.ts'
import { P384_KEY } from '../support/keys.ts'
import { sharedService } from '../support/shared-service.ts'

const counts = (...certificates: number[]) =>
  certificates.map((count, index) => ({ days: [1, 7, 14, 30][index], certificates: count }))

describe('renewals and blocked keys of the Admin API', () => {
  const at = issuingOn(() => sharedService('admin'))
  let issued: Obtained
  let serial: string
  before(async () => {
    issued = await at.client.obtain(['www.test'], at.responder)
    serial = new X509Certificate(issued.der).serialNumber
  })

  const window = async () => {
    const url = `${at.client.directory['renewalInfo']}/${certIdOf(issued.der)}`
    return (await send({ method: 'GET', url })).json.suggestedWindow as { start: string; end: string }
  }

  test('advice moves the window that the client sees, and is taken back', async () => {
    const usual = await window()
    const filter = { serial_numbers: [serial, '7a11'] }
    assert.equal((await at.auditor.send('POST', '/renewals', { filter })).status, 403)
    const advised = await at.admin.send('POST', '/renewals', { filter, explanation_url: 'https://ca.example/why' })
    assert.deepEqual([advised.status, advised.json.certificates], [200, 1], advised.text)
    assert.ok(new Date((await window()).end) < new Date())
    const cleared = await at.admin.send('DELETE', '/renewals', { filter: { all: true } })
    assert.deepEqual([cleared.status, cleared.json.certificates], [200, 1], cleared.text)
    assert.deepEqual(await window(), usual)
    await at.admin.send('DELETE', '/renewals', { filter: { all: true } })
    const rows = await at.sql("SELECT action FROM admin_audit_log WHERE action LIKE 'renewal.%' ORDER BY sequence")
    assert.deepEqual(each(rows, 'action'), ['renewal.advise', 'renewal.clear'])
  })

  test('a filter says which certificates, or that all are meant', async () => {
    const wrong = [
      {},
      { filter: {} },
      { filter: { all: false } },
      { filter: { all: true, issued_before: '2026-01-01' } },
      { filter: { serial_numbers: ['x'] } },
      { filter: { issuer: '00'.repeat(32) } },
      { filter: { domain: 'a' } },
      { filter: { all: true }, window_end: '2020-01-01' },
      { filter: { all: true }, explanation_url: 'file:///x' },
    ]
    for (const body of wrong)
      assert.equal((await at.admin.send('POST', '/renewals', body)).status, 400, JSON.stringify(body))
    const none = await at.admin.send('POST', '/renewals', { filter: { issued_before: '2020-01-01' } })
    assert.deepEqual([none.status, none.json.certificates], [200, 0])
  })

  test('certificates are counted by the day of their end', async () => {
    const { json } = await at.auditor.get('/certificates/expiry-histogram?days=400')
    const day = new Date(new X509Certificate(issued.der).validTo).toISOString().slice(0, 10)
    const { issuer_fingerprint } = (await at.auditor.get(`/certificates/${serial}`)).json
    assert.deepEqual(json, { is_estimate: false, buckets: [{ day, group: issuer_fingerprint, certificates: 1 }] })
    const byProfile = await at.auditor.get('/certificates/expiry-histogram?by=profile&days=400')
    assert.deepEqual(byProfile.json.buckets, [{ day, group: 'default', certificates: 1 }])
    assert.equal((await at.auditor.get('/certificates/expiry-histogram?by=names')).status, 400)
  })

  test('certificates that end soon are counted by account, in the order of their number', async () => {
    const accountId = accountIdOf(at.client)
    const ending = (days: number, account: string | null, count: number) =>
      at.sql(
        `INSERT INTO certificates (id, account_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
         SELECT gen_random_uuid(), $1, decode(md5(random()::text), 'hex'), '\\x07', '{}', now(),
                now() + make_interval(hours => $2), decode(md5(random()::text), 'hex')
           FROM generate_series(1, $3)`,
        [account, days * 24 - 1, count],
      )
    const path = '/certificates/expiring-by-account'
    assert.deepEqual((await at.auditor.get(path)).json, {
      is_estimate: false,
      accounts: [],
      others: counts(0, 0, 0, 0),
    })
    await ending(1, accountId, 2)
    await ending(30, accountId, 3)
    await ending(14, null, 1)
    await ending(31, null, 9)
    for (let other = 0; other < 12; other++) await ending(7, randomUUID(), 2)
    const { json } = await at.auditor.get(path)
    assert.deepEqual(json.accounts[0], {
      account_id: accountId,
      account_name: accountId.slice(-12),
      contacts: [],
      eab_kid: null,
      expiring: counts(2, 2, 2, 5),
    })
    assert.deepEqual(
      each(json.accounts.slice(1) as { expiring: unknown }[], 'expiring'),
      Array(9).fill(counts(0, 2, 2, 2)),
    )
    assert.deepEqual(json.others, counts(0, 6, 7, 7))
    await at.sql("DELETE FROM certificates WHERE issuer_fingerprint = '\\x07'")
  })

  test('a blocked key gets no certificate until it is unblocked', async () => {
    const spki = P384_KEY.publicKey.export({ type: 'spki', format: 'der' })
    const hash = createHash('sha256').update(spki).digest('hex')
    const made = await at.admin.send('POST', '/blocked-keys', { spki_sha256: hash.toUpperCase() })
    assert.deepEqual([made.status, made.json.source, made.json.spki_sha256], [201, 'administrator', hash], made.text)
    assert.equal((await at.admin.send('POST', '/blocked-keys', { spki_sha256: hash })).status, 409)
    assert.equal((await at.admin.send('POST', '/blocked-keys', { spki_sha256: 'x' })).status, 400)

    const order = await at.client.newOrder(['key.test'])
    await at.client.authorize(order, at.responder)
    const csr = await csrFor(['key.test'], P384_KEY)
    assert.match((await at.client.post(order.json.finalize, { csr })).text, /badCSR/)
    assert.equal((await at.auditor.send('DELETE', `/blocked-keys/${hash}`)).status, 403)
    assert.equal((await at.admin.send('DELETE', `/blocked-keys/${hash}`)).status, 204)
    assert.equal((await at.admin.send('DELETE', `/blocked-keys/${hash}`)).status, 404)
    assert.equal((await at.client.post(order.json.finalize, { csr })).status, 200)
  })

  test('blocked keys are listed newest first, and those of a file are taken out there', async () => {
    await at.sql(`
      INSERT INTO blocked_keys (spki_sha256, blocked_at)
      SELECT decode(lpad(to_hex(n), 64, '0'), 'hex'), now() - interval '1 day' FROM generate_series(1, 5) n`)
    await at.admin.send('POST', '/blocked-keys', { spki_sha256: 'ff'.repeat(32) })
    const found: { spki_sha256: string }[] = await allRows(at.auditor, '/blocked-keys?limit=2&cursor=')
    const ends = found.map((row) => row.spki_sha256.slice(-2))
    assert.deepEqual(ends, ['ff', '05', '04', '03', '02', '01'])
    assert.equal((await at.admin.send('DELETE', `/blocked-keys/${'1'.padStart(64, '0')}`)).status, 409)
    assert.equal((await at.admin.send('DELETE', '/blocked-keys/x')).status, 404)
  })
})
