/** Searches in long lists: by name they find what is there, and one that was cut off says so. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { CertificateFilter } from '../../src/admin/certificates/certificate-filter.ts'
import { listCertificates } from '../../src/admin/certificates/certificate-list.ts'
import { type DatabasePool, openCheckedDatabase } from '../../src/store/slonik.ts'
import { settingsFor } from '../store/support.ts'
import { nextPage } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { chancery } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'

const CERTIFICATES = 100_000
/** Keys ascend; the first and oldest has a name of its own, and every account but the newest has the same contact. */
const FILL = `
  INSERT INTO certificates (id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
  SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, decode(lpad(to_hex(n), 16, '0'), 'hex'), '\\x00',
         CASE n WHEN 1 THEN ARRAY['www.rare.test', '*.rare.test'] ELSE ARRAY['host' || n || '.usual.test'] END,
         now(), now() + interval '1 day' + abs(n - ${CERTIFICATES / 2}) * interval '1 second', decode(lpad(to_hex(n), 16, '0'), 'hex')
    FROM generate_series(1, ${CERTIFICATES}) n;
  INSERT INTO orders (id, account_id, identifiers, authorization_ids, profile, expires_at, status)
  SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, gen_random_uuid(), '[]', '{}', 'default', now(), 'invalid'
    FROM generate_series(1, 100010) n;
  INSERT INTO accounts (id, thumbprint, jwk, contacts)
  SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, n, '{}',
         ARRAY[CASE n WHEN 5000 THEN 'mailto:newest@search.test' ELSE 'mailto:ops@search.test' END]
    FROM generate_series(1, 5000) n;
  ANALYZE certificates, orders, accounts`

describe('searches in long lists', () => {
  const { service, sql, as } = administered(() => sharedService('admin'))
  const admin = as('alice')
  let db: DatabasePool
  before(async () => {
    await sql(FILL)
    db = await openCheckedDatabase(settingsFor(service.database.connection, 1))
  })
  after(async () => {
    await db?.end()
  })

  const RARE: Record<string, CertificateFilter> = {
    'by its name': { domain: 'www.rare.test' },
    'by its name, among those of a status': { domain: 'www.rare.test', status: 'active' },
    'by a name above it': { domain_suffix: 'rare.test' },
    'by a name above it, among those of a status': { domain_suffix: 'rare.test', status: 'active' },
  }
  for (const [title, filter] of Object.entries(RARE))
    for (const sort of ['-issued_at', 'not_after', '-not_after'] as const)
      test(`the oldest of many is found ${title}, in the order ${sort}, without a search through the others`, async () => {
        const { rows, next, isComplete } = await listCertificates(db, filter, undefined, 50, sort)
        assert.deepEqual([rows.map(({ names }) => names[0]), next, isComplete], [['www.rare.test'], undefined, true])
      })

  test('those below a usual name come once each, page after page, in every order', async () => {
    for (const sort of ['-issued_at', 'not_after', '-not_after']) {
      let next: string | undefined = `/certificates?domain_suffix=usual.test&sort=${sort}&limit=100&cursor=`
      const serials = new Set<string>()
      for (let page = 1; page <= 3 && next !== undefined; page++) {
        const reply = await admin.get(next)
        for (const { serial_number } of reply.json) serials.add(serial_number)
        next = nextPage(reply)
      }
      assert.equal(serials.size, 300)
    }
  })

  test('the farthest offset is reached in a list without filters', async () => {
    const { status, json, text } = await admin.get('/orders?offset=100000&limit=100')
    assert.equal(status, 200, text)
    assert.deepEqual(
      json.map(({ id }: { id: string }) => parseInt(id.slice(24), 16)),
      [10, 9, 8, 7, 6, 5, 4, 3, 2, 1],
    )
  })

  /** Locks the table from before the search until it has waited for longer than it may take. */
  async function whileTableIsLocked<T>(work: () => Promise<T>): Promise<T> {
    const client = new pg.Client(service.database.connection)
    await client.connect()
    try {
      await client.query('BEGIN; LOCK TABLE accounts')
      const working = work()
      // On a connection of its own: a transaction sees the activity as it was at its first look.
      const waiting = `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%accounts a WHERE%' AND query NOT LIKE '%abandoned%'`
      for (let turn = 0; turn < 600 && (await sql(waiting)).length === 0; turn++) await sleep(100)
      await sleep(2_500)
      await client.query('COMMIT')
      return await working
    } finally {
      await client.end()
    }
  }

  test('a search cut off after some rows says so in a header, and its Link leads to the rest', async () => {
    const cut = await whileTableIsLocked(() => admin.get('/accounts?contact=newest@search.test'))
    assert.deepEqual([cut.status, cut.json.length, cut.headers.get('search-complete')], [200, 1, 'false'])
    const rest = await admin.get(nextPage(cut) ?? '')
    assert.deepEqual([rest.status, rest.json, nextPage(rest)], [200, [], undefined])
    assert.equal(rest.headers.get('search-complete'), null)
  })

  test('one that was cut off before it found anything is 503 with a sentence and the place to go on', async () => {
    const cut = await whileTableIsLocked(() => admin.get('/accounts?contact=nobody@search.test'))
    assert.deepEqual([cut.status, cut.json.error, cut.headers.get('search-complete')], [503, 'unavailable', 'false'])
    assert.match(cut.json.message, /cut off after 2 seconds .* narrow it, or continue with cursor=[0-9a-f-]{36}$/)
    const rest = await admin.get(nextPage(cut) ?? '')
    assert.deepEqual([rest.status, rest.json, nextPage(rest)], [200, [], undefined])
  })

  test('the command says that a search was cut off, and with --all it goes on to the end', async () => {
    for (const [contact, code] of [
      ['newest@search.test', 0],
      ['nobody@search.test', 1],
    ] as const) {
      const cut = await whileTableIsLocked(() => chancery(service, 'accounts', 'list', '--contact', contact))
      assert.equal(cut.code, code, cut.stderr)
      assert.match(cut.stderr, /the search was cut off after 2 seconds; narrow it, or continue: --all, or --cursor/)
    }
    const all = await whileTableIsLocked(() =>
      chancery(service, 'accounts', 'list', '--all', '--json', '--contact', 'nobody@search.test'),
    )
    assert.deepEqual([all.code, JSON.parse(all.stdout)], [0, []], all.stderr)
  })
})
