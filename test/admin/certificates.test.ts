/** Certificates in the Admin API, over HTTP against a whole service. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { before, describe, test } from 'node:test'
import type { Obtained } from '../support/acme-client.ts'
import { allRows, fieldsOf } from '../support/admin.ts'
import { issuingOn } from '../support/administered.ts'
import { P384_KEY } from '../support/keys.ts'
import { metricOf } from '../support/metrics.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

type Row = Record<string, unknown>

describe('certificates of the Admin API', () => {
  const at = issuingOn(() => sharedService('admin'))
  let issued: Obtained
  let leaf: X509Certificate
  before(async () => {
    issued = await at.client.obtain(['www.shop.test', 'shop.test'], at.responder)
    leaf = new X509Certificate(issued.der)
    // Serial numbers 0x0101 to 0x011e: every third revoked, every fifth expired.
    await at.sql(`
      INSERT INTO certificates (id, account_id, serial_number, issuer_fingerprint, names, not_before, not_after, der,
                                issued_at, revoked_at, revocation_reason)
      SELECT ('01900000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, '01900000-0000-7000-8000-00000000acc0',
             decode(lpad(to_hex(256 + n), 4, '0'), 'hex'), '\\x07', ARRAY['h' || n || '.old_%.example'],
             now() - interval '9 days', now() + (CASE WHEN n % 5 = 0 THEN -n ELSE n END) * interval '1 hour',
             decode(lpad(to_hex(n), 8, '0'), 'hex'), now(), CASE WHEN n % 3 = 0 THEN now() END,
             CASE WHEN n % 6 = 0 THEN 4 END
        FROM generate_series(1, 30) n`)
  })

  const list = async (query: string) => {
    const reply = await at.admin.get(`/certificates?${query}`)
    assert.equal(reply.status, 200, reply.text)
    return reply.json as Row[]
  }
  const ACCOUNT = 'account_id=01900000-0000-7000-8000-00000000acc0&limit=100'
  const numbers = (rows: Row[]) => rows.map((row) => Number.parseInt(String(row['serial_number']), 16) - 256)
  const upTo30 = (isWanted: (n: number) => boolean) =>
    Array.from({ length: 30 }, (_, n) => 30 - n).filter((n) => isWanted(n))

  test('a record says what was issued, to whom, and who may have the key', async () => {
    const { json } = await at.admin.get(`/certificates/${leaf.serialNumber}`)
    assert.deepEqual(json, {
      id: json.id,
      account_id: at.client.kid.split('/').at(-1),
      account_name: at.client.kid.slice(-12),
      order_id: issued.orderUrl.split('/').at(-1),
      serial_number: leaf.serialNumber.toLowerCase().replace(/^(00)+/, ''),
      fingerprint: leaf.fingerprint256.replaceAll(':', '').toLowerCase(),
      issuer_fingerprint: json.issuer_fingerprint,
      key_type: 'P-256',
      not_before: new Date(leaf.validFrom).toISOString(),
      not_after: new Date(leaf.validTo).toISOString(),
      revoked_at: null,
      revocation_reason: null,
      san_values: json.san_values,
      created_at: json.created_at,
      renewal: json.renewal,
    })
    assert.equal(json.renewal.renewed, null)
    assert.ok(Date.parse(json.renewal.window_end) > Date.parse(json.renewal.window_start))
    assert.deepEqual([...json.san_values].sort(), ['shop.test', 'www.shop.test'])
  })

  test('its details have the window of the list, also one that the CA behind this service suggests', async () => {
    const path = `/certificates/${leaf.serialNumber}`
    const window = { window_start: '2026-01-02T03:04:05Z', window_end: '2026-01-03T03:04:05Z' }
    const { id } = (await at.admin.get(path)).json
    await at.sql('INSERT INTO upstream_renewals VALUES ($1, $2, $3, $4)', [id, 'other', ...Object.values(window)])
    try {
      const times = ({ window_start, window_end }: Record<string, string>) =>
        [window_start, window_end].map((text) => new Date(String(text)).getTime())
      assert.deepEqual(times((await at.admin.get(path)).json.renewal), times(window))
      assert.deepEqual(times((await at.admin.get(`${path}/details`)).json.renewal), times(window))
    } finally {
      await at.sql('DELETE FROM upstream_renewals WHERE certificate_id = $1', [id])
    }
  })

  test('a serial number is read in any case, with colons and leading zeros; no other is', async () => {
    for (const text of ['0101', '101', '00:00:01:01', '000101'])
      assert.equal((await at.admin.get(`/certificates/${text}`)).json.serial_number, '0101', text)
    for (const text of ['0199', 'zz', '0', '%27', 'f'.repeat(60)])
      assert.equal((await at.admin.get(`/certificates/${text}`)).status, 404, text)
  })

  test('a certificate is found by its fingerprint', async () => {
    const path = `/certificates/by-fingerprint/${encodeURIComponent(leaf.fingerprint256)}`
    assert.equal((await at.auditor.get(path)).json.order_id, issued.orderUrl.split('/').at(-1))
    for (const wrong of ['00'.repeat(32), 'nothing'])
      assert.equal((await at.admin.get(`/certificates/by-fingerprint/${wrong}`)).status, 404)
    assert.equal((await list(`fingerprint=${leaf.fingerprint256}`)).length, 1)
    assert.equal((await list(`fingerprint=${leaf.fingerprint256}&status=expired`)).length, 0)
  })

  test('the certificate and its chain are given as PEM', async () => {
    const pem = await at.auditor.get(`/certificates/${leaf.serialNumber}/pem`)
    assert.equal(pem.headers.get('content-type'), 'application/x-pem-file')
    assert.equal(new X509Certificate(pem.text).fingerprint256, leaf.fingerprint256)
    const chain = await at.auditor.get(`/certificates/${leaf.serialNumber}/chain`)
    assert.equal(chain.headers.get('content-type'), 'application/pem-certificate-chain')
    assert.ok(chain.text.startsWith(pem.text))
    assert.ok(chain.text.length > pem.text.length)
    assert.equal((await at.admin.get('/certificates/beef/pem')).status, 404)
  })

  test('lists filter by account, status and expiry, newest first', async () => {
    assert.deepEqual(
      numbers(await list(ACCOUNT)),
      upTo30(() => true),
    )
    const [now, isExpired] = [ACCOUNT, (n: number) => n % 5 === 0]
    assert.deepEqual(
      numbers(await list(`${now}&status=revoked`)),
      upTo30((n) => n % 3 === 0),
    )
    assert.deepEqual(
      numbers(await list(`${now}&status=expired`)),
      upTo30((n) => isExpired(n) && n % 3 > 0),
      'a certificate has one status, and a revoked one stays revoked',
    )
    assert.deepEqual(
      numbers(await list(`${now}&status=active`)),
      upTo30((n) => n % 3 > 0 && !isExpired(n)),
    )
    const inTen = new Date(Date.now() + 9.5 * 3_600_000).toISOString()
    const soon = await list(`domain_suffix=old_%25.example&expiring_before=${inTen}`)
    assert.deepEqual(numbers(soon), [9, 8, 7, 6, 4, 3, 2, 1, 5, 10, 15, 20, 25, 30])
    const inFive = new Date(Date.now() + 5.5 * 3_600_000).toISOString()
    const between = await list(`domain_suffix=old_%25.example&expiring_after=${inFive}&expiring_before=${inTen}`)
    assert.deepEqual(numbers(between), [9, 8, 7, 6])
    assert.deepEqual(numbers(await list(`domain_suffix=old_%25.example&expiring_after=${inTen}&limit=2`)), [29, 28])
    assert.deepEqual(numbers(await list(`${now}&sort=not_after&limit=3`.replace('limit=100&', ''))), [30, 25, 20])
  })

  test('a revocation has the name of its reason, unspecified where none was given', async () => {
    const reasons = (await list(`${ACCOUNT}&status=revoked`)).map((row) => row['revocation_reason'])
    assert.deepEqual([...new Set(reasons)].sort(), ['superseded', 'unspecified'])
  })

  test('all certificates of a key are found by its hash', async () => {
    const { public_key } = (await at.admin.get(`/certificates/${leaf.serialNumber}/details`)).json
    const found = await list(`spki_sha256=${public_key.spki_sha256}`)
    assert.deepEqual(
      found.map((row) => row['serial_number']),
      [leaf.serialNumber.toLowerCase().replace(/^(00)+/, '')],
    )
    assert.deepEqual(await list(`spki_sha256=${'ab'.repeat(32)}`), [])
  })

  test('a domain is one exact name, a suffix all below; wildcards of SQL are letters', async () => {
    assert.equal((await list('domain=WWW.shop.test')).length, 1)
    assert.equal((await list('domain=hop.test')).length, 0)
    assert.equal((await list('domain_suffix=shop.test')).length, 1)
    assert.equal((await list('domain_suffix=hop.test')).length, 0)
    assert.equal((await list('domain_suffix=old_%25.example')).length, 30)
    for (const text of ['%', '%.example', 'old__.example', "x' OR '1'='1"]) {
      const found = await list(`domain_suffix=${encodeURIComponent(text)}`)
      assert.equal(found.length, 0, text)
    }
  })

  test('lists filter by serial number, issuer and profile', async () => {
    assert.deepEqual(numbers(await list('serial=00:01:1E')), [30])
    const { issuer_fingerprint } = (await at.admin.get(`/certificates/${leaf.serialNumber}`)).json
    // Other files may have had certificates of the same service.
    const ofIssuer = await list(`issuer=${issuer_fingerprint}`)
    assert.ok(ofIssuer.every((row) => row['issuer_fingerprint'] === issuer_fingerprint))
    const own = leaf.serialNumber.toLowerCase().replace(/^(00)+/, '')
    for (const rows of [ofIssuer, await list('profile=default')])
      assert.ok(rows.some((row) => row['serial_number'] === own))
    assert.equal((await list('profile=other')).length, 0)
  })

  test('a certificate is renewed once another one has its names and ends later', async () => {
    const names = ['renewed.test', 'www.renewed.test']
    const first = new X509Certificate((await at.client.obtain(names, at.responder)).der).serialNumber.toLowerCase()
    const found = async (renewed: string, reader = at.auditor) => {
      const reply = await reader.get(`/certificates?domain=renewed.test&sort=not_after&renewed=${renewed}`)
      assert.equal(reply.status, 200, reply.text)
      return reply.json.map((row: Row) => row['serial_number'])
    }
    assert.deepEqual([await found('true'), await found('false')], [[], [first]])
    // Ends are whole seconds.
    await at.sql(
      "UPDATE certificates SET not_after = not_after - interval '1 day' WHERE serial_number = decode($1, 'hex')",
      [first],
    )
    const next = await at.client.obtain([...names, 'more.renewed.test'], at.responder)
    const second = new X509Certificate(next.der).serialNumber.toLowerCase()
    assert.deepEqual([await found('true'), await found('0', at.admin)], [[first], [second]])
    assert.equal((await at.admin.get('/certificates?renewed=perhaps')).status, 400)
  })

  test('pages by offset and by cursor have the same rows', async () => {
    for (const begin of ['', '&cursor=']) {
      const found = await allRows(at.admin, `/certificates?domain_suffix=example&limit=7${begin}`)
      assert.deepEqual(
        numbers(found),
        upTo30(() => true),
        begin,
      )
    }
    assert.deepEqual(await list('offset=5000'), [])
  })

  test('every wrong parameter is named', async () => {
    const query = 'account_id=x&serial=zz&fingerprint=00&status=good&expiring_before=x&sort=names&offset=100001x&foo=1'
    const reply = await at.admin.get(`/certificates?${query}`)
    assert.equal(reply.status, 400)
    const wrong = ['account_id', 'expiring_before', 'fingerprint', 'foo', 'offset', 'serial', 'sort', 'status']
    assert.deepEqual(fieldsOf(reply), wrong)
    assert.match((await at.admin.get('/certificates?offset=100001')).json.message, /cursor/)
  })

  const changesOfCrl = async () => {
    const rows = await at.sql('SELECT coalesce(sum(changes), 0)::integer AS n FROM crl_changes')
    return rows[0]?.['n'] as number
  }
  const revokedInMetrics = () => metricOf(at.service, 'certificates_revoked_total', at.admin.token)

  test('a revocation is counted, audited and final; keyCompromise blocks the key', async () => {
    const [changesBefore, revokedBefore] = [await changesOfCrl(), await revokedInMetrics()]
    const obtained = await at.client.obtain(['leaked.test'], at.responder, { key: P384_KEY })
    const serial = new X509Certificate(obtained.der).serialNumber
    const path = `/certificates/${serial}/revoke`
    assert.equal((await at.auditor.send('POST', path, { reason: 1 })).status, 403)
    for (const reason of [6, 7, 8, 10, 'keyCompromise', null])
      assert.equal((await at.admin.send('POST', path, { reason })).status, 400, String(reason))
    const reply = await at.admin.send('POST', path, { reason: 1 })
    assert.deepEqual([reply.status, reply.json.revocation_reason], [200, 'keyCompromise'], reply.text)
    assert.equal((await at.admin.send('POST', path, { reason: 1 })).status, 409)
    assert.equal((await at.admin.send('POST', '/certificates/beef/revoke')).status, 404)

    const rows = await at.sql(
      `SELECT b.certificate_id, l.details ->> 'serial_number' AS serial FROM admin_audit_log l
         JOIN blocked_keys b ON encode(b.spki_sha256, 'hex') = l.details ->> 'blocked_key'
        WHERE action = 'certificate.revoke'`,
    )
    assert.deepEqual(rows, [{ certificate_id: reply.json.id, serial: reply.json.serial_number }])
    assert.equal(await changesOfCrl(), changesBefore + 1)
    await until('the metric to count it', async () => (await revokedInMetrics()) === revokedBefore + 1)
  })

  test('without a reason a revocation is unspecified', async () => {
    const obtained = await at.client.obtain(['plain.test'], at.responder)
    const serial = new X509Certificate(obtained.der).serialNumber
    const reply = await at.admin.send('POST', `/certificates/${serial}/revoke`)
    assert.deepEqual([reply.status, reply.json.revocation_reason], [200, 'unspecified'], reply.text)
  })

  test('a certificate that the database has lost is revoked by issuer and serial number', async () => {
    const { issuer_fingerprint: issuer } = (await at.admin.get(`/certificates/${leaf.serialNumber}`)).json
    const path = '/certificates/7a11/revoke'
    assert.equal((await at.admin.send('POST', path, { reason: 4 })).status, 404)
    assert.equal((await at.admin.send('POST', path, { issuer: '00'.repeat(32) })).status, 400)
    assert.equal((await at.admin.send('POST', path, { not_after: '2030-01-01' })).status, 400)
    const reply = await at.admin.send('POST', path, { reason: 4, issuer, not_after: '2030-01-01' })
    assert.equal(reply.status, 200, reply.text)
    const { serial_number, fingerprint, revocation_reason, not_after } = reply.json
    assert.deepEqual(
      [serial_number, fingerprint, revocation_reason, not_after],
      ['7a11', null, 'superseded', '2030-01-01T00:00:00.000Z'],
    )
    assert.equal((await at.admin.get('/certificates/7a11/pem')).status, 404)
    assert.equal((await at.admin.send('POST', path, { issuer })).status, 409)
    // Another issuer has given this serial number: that is another certificate.
    const other = await at.admin.send('POST', '/certificates/0101/revoke', { issuer })
    assert.deepEqual([other.status, other.json.issuer_fingerprint], [200, issuer])
  })
})
