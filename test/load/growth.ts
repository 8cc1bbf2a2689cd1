/**
 * What does a long record cost: bytes a certificate, write-ahead log, pages read, vacuum?
 *
 * `node compiled/test/load/growth.js [CERTIFICATES] [MINUTES] [DATABASE]` fills a database of its own, or takes a filled one of
 * the server of CHANCERY_TEST_POSTGRES, which it changes. It prints the size of each relation a row; then inserts orders with
 * certificates in groups of sixteen, as a busy front thread does; then deletes as many of the oldest as it inserts, with a
 * vacuum after each hundredth of the table, for so many minutes.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { testDatabase } from '../support/database.ts'
import { fillWithCertificates } from '../support/databases/many-certificates.ts'
import { givenPostgres } from '../support/postgres.ts'
import { withQuery } from '../support/revoked.ts'

const CERTIFICATES = Number(process.argv[2] ?? 1_000_000)
const MINUTES = Number(process.argv[3] ?? 5)
const KEPT = process.argv[4]
const INSERT_SECONDS = 30
const GROUP = 16
const VACUUM_SHARE = 0.01

type Query = Parameters<Parameters<typeof withQuery>[1]>[0]

const INSERT = `
  WITH made AS MATERIALIZED (
    SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7' || substr(digest, 1, 3) || '8'
            || substr(digest, 4, 15))::uuid AS id, digest, n
      FROM (SELECT n, md5(random()::text) AS digest FROM generate_series(1, $1::integer) n) d
  ), ordered AS (
    INSERT INTO orders (id, account_id, status, identifiers, authorization_ids, profile, expires_at, certificate_id)
    SELECT id, id, 'valid', ('[{"type": "dns", "value": "' || digest || '.example"}]')::jsonb, ARRAY[id], 'default',
           now() + interval '7 days', id FROM made
  )
  INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der)
  SELECT id, id, id, decode('10' || digest, 'hex'), sha256('first'), ARRAY['host' || (random() * 2500000)::integer || '.load.example'], now(),
         now() + interval '90 days', decode(digest || repeat('5a', 600), 'hex')
    FROM made`

/** The oldest, in the order of their ids. */
const DELETE = `
  WITH gone AS (
    DELETE FROM certificates WHERE id = ANY (ARRAY(SELECT id FROM certificates ORDER BY id LIMIT $1::integer)) RETURNING order_id
  )
  DELETE FROM orders WHERE id = ANY (ARRAY(SELECT order_id FROM gone))`

const SIZES = `
  SELECT c.relname AS name, pg_relation_size(c.oid)::float8 AS bytes
    FROM pg_class c WHERE c.oid IN ('certificates'::regclass, 'orders'::regclass)
      OR c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid IN ('certificates'::regclass, 'orders'::regclass))
   ORDER BY c.relname`

const USED = `
  SELECT (pg_current_wal_insert_lsn() - '0/0')::float8 AS wal, blks_read::float8 AS reads, blks_hit::float8 AS hits
    FROM pg_stat_database WHERE datname = current_database()`

const given = givenPostgres()
const database =
  KEPT === undefined || !given
    ? await testDatabase()
    : { connection: { ...given, database: KEPT }, drop: async () => undefined }
try {
  if (KEPT === undefined) await fillWithCertificates(database.connection, CERTIFICATES, (said) => console.log(said))
  await withQuery(database.connection, measure)
} finally {
  await database.drop()
}

async function measure(query: Query): Promise<void> {
  // As the service sets them.
  await query("SELECT set_config('jit', 'off', false), set_config('enable_seqscan', 'off', false)")
  const rows = Number((await query('SELECT count(*)::float8 AS n FROM certificates'))[0]?.['n'])
  await printSizes(query, rows)
  await query('CHECKPOINT').catch(() => console.log('no right to a checkpoint: fewer whole pages are in the log'))
  console.log(await insertFor(query, INSERT_SECONDS, false))
  await keepSteady(query, rows)
  await printSizes(query, Number((await query('SELECT count(*)::float8 AS n FROM certificates'))[0]?.['n']))
}

async function insertFor(query: Query, seconds: number, isSteady: boolean): Promise<string> {
  const before = await usedBy(query)
  const startedAt = performance.now()
  let inserted = 0
  for (; performance.now() - startedAt < seconds * 1000; inserted += GROUP) {
    await query(INSERT, [GROUP])
    if (isSteady) await query(DELETE, [GROUP])
  }
  const took = (performance.now() - startedAt) / 1000
  const after = await usedBy(query)
  const each = (what: keyof typeof before) => (after[what] - before[what]) / inserted
  const figures = `${each('wal').toFixed(0)} bytes of WAL, ${each('reads').toFixed(2)} pages read, ${each('hits').toFixed(0)} found`
  return `${isSteady ? 'inserted and deleted' : 'inserted'} ${(inserted / took).toFixed(0)}/s on one connection; each ${figures}`
}

async function keepSteady(query: Query, rows: number): Promise<void> {
  const endsAt = performance.now() + MINUTES * 60_000
  while (performance.now() < endsAt) {
    console.log(await insertFor(query, Math.min(60, MINUTES * 30), true))
    const [row] = await query(
      "SELECT n_dead_tup::float8 AS dead FROM pg_stat_user_tables WHERE relname = 'certificates'",
    )
    if (Number(row?.['dead']) > rows * VACUUM_SHARE) await vacuum(query, Number(row?.['dead']))
    await sleep(1_000)
  }
  await vacuum(query, 0)
}

async function vacuum(query: Query, dead: number): Promise<void> {
  const startedAt = performance.now()
  for (const table of ['certificates', 'orders']) await query(`VACUUM ${table}`)
  console.log(
    `vacuum of both tables with ${dead} dead certificates: ${((performance.now() - startedAt) / 1000).toFixed(1)} s`,
  )
}

async function usedBy(query: Query): Promise<{ wal: number; reads: number; hits: number }> {
  // Statistics of the session are written once a second.
  await sleep(1_200)
  const [row] = await query(USED)
  return { wal: Number(row?.['wal']), reads: Number(row?.['reads']), hits: Number(row?.['hits']) }
}

async function printSizes(query: Query, rows: number): Promise<void> {
  const sizes = await query(SIZES)
  const total = sizes.reduce((sum, { bytes }) => sum + Number(bytes), 0)
  console.log(`${rows.toLocaleString('en')} certificates: ${(total / rows).toFixed(0)} bytes each`)
  for (const { name, bytes } of sizes)
    console.log(`  ${String(name).padEnd(32)}${(Number(bytes) / rows).toFixed(1).padStart(8)}`)
}
