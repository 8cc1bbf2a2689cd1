/** `npm run bench -- load`: what it makes looks like operation, it goes on where it stopped, and it spares what is not its own. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { anAccount, openStores, type StoreFixture } from '../store/support.ts'

const BENCH = path.resolve(import.meta.dirname, '../../bench/main.js')
const FIGURES = [
  '--certificates',
  '3000',
  '--accounts',
  '300',
  '--large-account-orders',
  '300',
  '--history-days',
  '120',
]

describe('bench load', () => {
  let store: StoreFixture
  let folder: string
  before(async () => {
    store = await openStores()
    folder = mkdtempSync(path.join(tmpdir(), 'chancery-load-'))
  })
  after(async () => {
    await store.close()
    rmSync(folder, { recursive: true })
  })

  function load(...words: string[]): Promise<{ code: number; out: string; complaint: string }> {
    const { host, port, database, user, password } = store.settings
    const url = `postgres://${user}:${password}@localhost:${port}/${database}?host=${encodeURIComponent(host)}&sslmode=disable`
    return new Promise((resolve) => {
      const args = [BENCH, 'load', '--database', url, '--account-key', path.join(folder, 'key.pem'), ...words]
      execFile(process.execPath, args, (error, out, complaint) =>
        resolve({ code: error ? Number(error.code) : 0, out, complaint }),
      )
    })
  }
  const counts = async () =>
    (
      await store.sql<Record<string, number>>(`
        SELECT (SELECT count(*)::integer FROM accounts) AS accounts, (SELECT count(*)::integer FROM orders) AS orders,
               (SELECT count(*)::integer FROM authorizations) AS authorizations,
               (SELECT count(*)::integer FROM certificates) AS certificates,
               (SELECT count(*)::integer FROM certificates WHERE revoked_at IS NOT NULL) AS revoked,
               (SELECT sum(changes)::integer FROM crl_changes) AS changes`)
    )[0] as Record<string, number>

  test('refuses a database with accounts of its own, unless told', async () => {
    await anAccount(store)
    const { code, complaint } = await load(...FIGURES)
    assert.equal(code, 1)
    assert.match(complaint, /has accounts that are not of a load/)
    await store.sql('TRUNCATE accounts CASCADE')
  })

  test('makes as many rows as it was told, and says what they take', async () => {
    const { code, out, complaint } = await load(...FIGURES)
    assert.equal(code, 0, complaint)
    const made = await counts()
    assert.equal(made['accounts'], 300)
    assert.ok(Math.abs((made['certificates'] as number) - 3000) < 60, JSON.stringify(made))
    assert.ok((made['orders'] as number) > 3050 && (made['authorizations'] as number) > (made['orders'] as number))
    assert.equal(made['revoked'], made['changes'])
    assert.match(out, /certificates_serial_number_key/)
    assert.match(out, /account with about 300 orders: [0-9a-f-]{36}/)
  })

  test('certificates say what their rows say', async () => {
    type Row = { der: Buffer; serial_number: Buffer; names: string[]; not_before: Date; not_after: Date }
    const rows = await store.sql<Row>(
      'SELECT der, serial_number, names, not_before, not_after FROM certificates ORDER BY random() LIMIT 200',
    )
    for (const { der, serial_number, names, not_before, not_after } of rows) {
      const { tbs } = parseCertificate(der)
      assert.deepEqual(tbs.serialNumber, serial_number)
      assert.deepEqual([tbs.notBefore, tbs.notAfter], [not_before, not_after])
      assert.deepEqual(tbs.dnsNames, names)
    }
  })

  test('rows belong together', async () => {
    const [row] = await store.sql(`
      SELECT count(*) FILTER (WHERE o.id IS NULL) AS orders, count(*) FILTER (WHERE a.id IS NULL) AS accounts,
             count(*) FILTER (WHERE z.id IS NULL) AS authorizations
        FROM certificates c LEFT JOIN orders o ON o.certificate_id = c.id AND o.id = c.order_id AND o.status = 'valid'
        LEFT JOIN accounts a ON a.id = c.account_id AND a.id = o.account_id
        LEFT JOIN authorizations z ON z.id = o.authorization_ids[1] AND z.identifier_value = c.names[1] AND z.account_id = a.id`)
    assert.deepEqual(row, { orders: '0', accounts: '0', authorizations: '0' })
  })

  test('called again it goes on where it stopped, with the same figures only', async () => {
    const made = await counts()
    await store.sql("DELETE FROM bench_load WHERE kind = 'accounts'")
    await store.sql('DELETE FROM accounts')
    assert.equal((await load(...FIGURES)).code, 0)
    assert.deepEqual(await counts(), made)
    const other = await load(...FIGURES.with(1, '4000'))
    assert.deepEqual([other.code, /filled with other figures/.test(other.complaint)], [1, true])
  })

  test('neither or both of --database and --data-dir are refused', async () => {
    const { code, complaint } = await load('--data-dir', folder)
    assert.deepEqual([code, /name either --database or --data-dir/.test(complaint)], [2, true])
  })
})
