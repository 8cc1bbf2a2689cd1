/** Accounts in the Admin API, over HTTP against a whole service. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { type AcmeClient, registeredClient, thumbprintOf } from '../support/acme-client.ts'
import { allPages, fieldsOf, nextPage } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { sharedService } from '../support/shared-service.ts'

type Row = Record<string, unknown>

describe('accounts of the Admin API', () => {
  const { service, sql, as } = administered(() => sharedService('admin'))
  const admin = as('alice')
  const auditor = as('audrey', 'auditor')
  let client: AcmeClient
  let id: string
  before(async () => {
    client = await registeredClient(service.directoryUrl)
    id = client.kid.split('/').at(-1) ?? ''
    // Of 120, the first is the oldest.
    await sql(`
      INSERT INTO eab_credentials (id, kid, hmac_key) VALUES ('01900000-0000-7000-8000-00000000eab0', 'team-a', '');
      INSERT INTO accounts (id, thumbprint, jwk, contacts, created_at, eab_credential_id, status)
      SELECT ('01900000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'thumbprint ' || n, '{"kty":"EC"}',
             CASE WHEN n = 7 THEN ARRAY['mailto:Ops_7%@Lists.Example'] ELSE ARRAY['mailto:a' || n || '@example.com'] END,
             '2024-06-10T02:00:00Z'::timestamptz + n * interval '1 second',
             CASE WHEN n % 10 = 0 THEN '01900000-0000-7000-8000-00000000eab0'::uuid END,
             CASE WHEN n = 3 THEN 'revoked' ELSE 'valid' END
        FROM generate_series(1, 120) n`)
  })

  const list = async (query: string, by = admin) => {
    const reply = await by.get(`/accounts?${query}`)
    assert.equal(reply.status, 200, reply.text)
    return reply.json as Row[]
  }
  const numbers = (rows: Row[]) => rows.map((row) => Number(String(row['id']).slice(-12)))

  test('one account has its key, contacts and credential; a profile only when it has one', async () => {
    const { json } = await admin.get(`/accounts/${id}`)
    assert.equal(json.jwk_thumbprint, thumbprintOf(client.key.jwk))
    assert.deepEqual([json.jwk.kty, json.status, json.eab_kid, json.contacts], ['EC', 'valid', null, []])
    assert.equal(json.updated_at, json.created_at)
    assert.equal('csr_profile_id' in json, false)
    await sql(`
      INSERT INTO csr_profiles (id, name, profile_data) VALUES ('01900000-0000-7000-8000-0000000000c5', 'servers', '{}')`)
    await sql(
      `INSERT INTO account_csr_profiles (account_id, csr_profile_id) VALUES ($1, '01900000-0000-7000-8000-0000000000c5')`,
      [id],
    )
    assert.equal((await admin.get(`/accounts/${id}`)).json.csr_profile_id, '01900000-0000-7000-8000-0000000000c5')
  })

  test('an auditor sees thumbprints and no keys', async () => {
    assert.equal('jwk' in (await auditor.get(`/accounts/${id}`)).json, false)
    for (const row of await list('', auditor)) assert.equal('jwk' in row, false)
    assert.equal('jwk' in ((await list('limit=1'))[0] as Row), true)
  })

  test('an unknown id and a malformed one are both 404', async () => {
    for (const wrong of ['01900000-0000-7000-8000-0000000fffff', 'nothing', "1' OR '1"])
      assert.equal((await admin.get(`/accounts/${encodeURIComponent(wrong)}`)).status, 404, wrong)
  })

  test('pages by offset carry the filters on and end without a Link', async () => {
    const pages = await allPages(admin, '/accounts?created_before=2024-06-11&limit=50')
    for (const page of pages.slice(0, -1))
      assert.match(nextPage(page) ?? '', /created_before=2024-06-11.*limit=50&offset=\d+/)
    assert.deepEqual(
      pages.flatMap(({ json }) => numbers(json)),
      Array.from({ length: 120 }, (_, n) => 120 - n),
    )
  })

  test('pages by cursor begin with an empty one', async () => {
    const first = await admin.get('/accounts?created_before=2024-06-11&limit=70&cursor=')
    const next = nextPage(first) ?? ''
    assert.match(next, /cursor=[0-9a-f-]{36}/)
    assert.doesNotMatch(next, /offset/)
    const second = await admin.get(next)
    assert.deepEqual(numbers([...first.json, ...second.json]).at(-1), 1)
    assert.equal(second.headers.get('link'), null)
  })

  test('status, credential and times filter, times strictly', async () => {
    assert.deepEqual(numbers(await list('status=revoked')), [3])
    const ofCredential = [120, 110, 100, 90, 80, 70, 60, 50, 40, 30, 20, 10]
    assert.deepEqual(numbers(await list('eab_only=TRUE')), ofCredential)
    assert.deepEqual(numbers(await list('eab_kid=team-a')), ofCredential)
    assert.deepEqual(numbers(await list('eab_kid=team-b')), [])
    assert.equal((await list('eab_only=0&created_before=2024-06-11&limit=500')).length, 120)
    const bounds = 'created_after=2024-06-10T02:00:05Z&created_before=2024-06-10T02:00:08Z'
    assert.deepEqual(numbers(await list(bounds)), [7, 6])
  })

  test('a contact is found by any part in any case, and wildcards of SQL are letters', async () => {
    for (const part of ['ops_7%@', 'OPS', 'lists.example', '7%']) {
      assert.deepEqual(numbers(await list(`contact=${encodeURIComponent(part)}`)), [7], part)
    }
    for (const part of ['ops%lists', '_ps', '%', "' OR 1=1 --", '\\']) {
      const found = await list(`contact=${encodeURIComponent(part)}`)
      assert.deepEqual(numbers(found), part === '%' ? [7] : [], part)
    }
  })

  test('every wrong parameter is named, and a far offset says where to go on', async () => {
    const reply = await admin.get('/accounts?status=gone&eab_only=maybe&created_before=soon&offset=-1')
    assert.equal(reply.status, 400)
    assert.deepEqual(fieldsOf(reply), ['created_before', 'eab_only', 'offset', 'status'])
    const far = await admin.get('/accounts?offset=100001')
    assert.equal(far.status, 400)
    assert.match(far.json.message, /cursor/)
    for (const limit of ['0', 'x']) assert.match((await admin.get(`/accounts?limit=${limit}`)).json.message, /1 to \d+/)
    assert.equal((await admin.get('/accounts?limit=100000')).status, 400)
    assert.equal((await admin.get('/accounts?cursor=x')).status, 400)
    assert.equal((await admin.get('/accounts?cursor=&offset=1')).status, 400)
  })

  test('an admin deactivates an account once; its owner is refused afterwards', async () => {
    const other = await registeredClient(service.directoryUrl)
    const otherId = other.kid.split('/').at(-1)
    assert.equal((await auditor.send('POST', `/accounts/${otherId}/deactivate`)).status, 403)
    const reply = await admin.send('POST', `/accounts/${otherId}/deactivate`)
    assert.deepEqual([reply.status, reply.json.status], [200, 'deactivated'], reply.text)
    assert.ok(reply.json.updated_at > reply.json.created_at)
    assert.equal((await admin.send('POST', `/accounts/${otherId}/deactivate`)).status, 200)
    const refused = await other.newOrder(['gone.test'])
    assert.equal(refused.status, 401)
    const rows = await sql("SELECT details FROM admin_audit_log WHERE action = 'account.deactivate'")
    assert.deepEqual(rows, [{ details: { account_id: otherId } }])
    const revoked = await admin.send('POST', '/accounts/01900000-0000-7000-8000-000000000003/deactivate')
    assert.equal(revoked.status, 409)
  })
})
