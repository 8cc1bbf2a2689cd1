/**
 * What does the index of fingerprints (`certificates_fingerprint`) cost an issuance?
 *
 * `node compiled/test/load/fingerprint-index.js [CERTIFICATES]` fills a database (default 1,000,000) and inserts certificates with the
 * index and without it, in turn, each time after a checkpoint. It shows time, WAL and page images of an insert as EXPLAIN has them,
 * and the difference as a share of what a whole certificate costs. It ends with 1 when that is above 2 %.
 */

import { randomBytes } from 'node:crypto'
import { loadavg } from 'node:os'
import pg from 'pg'
import { uuidv7 } from '../../src/shared/lib/uuid.ts'
import { testDatabase } from '../support/database.ts'
import { fillWithCertificates } from '../support/many-certificates.ts'
import { withQuery } from '../support/revoked.ts'

const GOAL = 0.02
/** CPU of a certificate with http-01: docs/benchmarks.md. */
const CERTIFICATE_US = 6_900
const ROUNDS = 5
const BATCHES = 200
const ROWS = 16
const DER_BYTES = 616

/** As the service inserts them, but for the intent that it takes them from. */
const INSERT = `
  EXPLAIN (ANALYZE, WAL, FORMAT JSON)
  INSERT INTO certificates (id, account_id, order_id, serial_number, issuer_fingerprint, names, not_before, not_after, der, spki_sha256)
  SELECT id, NULL, NULL, serial_number, sha256('first'), ARRAY['host.load.example'], now(), now() + interval '90 days', der, sha256(der)
    FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS i (id, serial_number, der)`
const INDEX = 'CREATE INDEX certificates_fingerprint ON certificates (sha256(der))'

interface Cost {
  us: number
  wal: number
  images: number
}

const database = await testDatabase()
const client = new pg.Client(database.connection)
await client.connect()
try {
  await fillWithCertificates(database.connection, Number(process.argv[2] ?? 1_000_000), (line) => console.log(line))
  const costs: Record<'with' | 'without', Cost[]> = { with: [], without: [] }
  for (let round = 0; round < ROUNDS; round++) {
    costs.with.push(await insertAll())
    await client.query('DROP INDEX certificates_fingerprint')
    costs.without.push(await insertAll())
    await client.query(INDEX)
  }
  report(costs)
} finally {
  await client.end()
  await database.drop()
}

/** Means of a row. */
async function insertAll(): Promise<Cost> {
  await checkpoint()
  const total: Cost = { us: 0, wal: 0, images: 0 }
  for (let batch = 0; batch < BATCHES; batch++) {
    const rows = Array.from({ length: ROWS }, () => randomBytes(DER_BYTES))
    const values = [rows.map(() => uuidv7(Date.now())), rows.map(() => randomBytes(16)), rows]
    type Explained = { 'QUERY PLAN': [{ Plan: Record<string, number>; 'Execution Time': number }] }
    const [plan] = (await client.query<Explained>(INSERT, values)).rows[0]?.['QUERY PLAN'] ?? []
    total.us += (plan?.['Execution Time'] ?? 0) * 1_000
    total.wal += plan?.Plan['WAL Bytes'] ?? 0
    total.images += plan?.Plan['WAL FPI'] ?? 0
  }
  const inserted = BATCHES * ROWS
  return { us: total.us / inserted, wal: total.wal / inserted, images: total.images / inserted }
}

/** Ordinary roles may not. */
async function checkpoint(): Promise<void> {
  await withQuery({ ...database.connection, user: 'postgres', database: 'postgres' }, (query) => query('CHECKPOINT'))
}

function report(costs: Record<'with' | 'without', Cost[]>): void {
  const middle = (which: 'with' | 'without', what: keyof Cost) =>
    costs[which].map((cost) => cost[what]).toSorted((a, b) => a - b)[ROUNDS >> 1] as number
  console.log('median of the rounds, of one row   µs   WAL bytes   page images')
  for (const which of ['with', 'without'] as const)
    console.log(
      `${which.padEnd(8)} ${middle(which, 'us').toFixed(1)}  ${middle(which, 'wal').toFixed(0)}  ${middle(which, 'images').toFixed(2)}`,
    )
  const share = (middle('with', 'us') - middle('without', 'us')) / CERTIFICATE_US
  console.log(`${(share * 100).toFixed(2)} % of a certificate (${CERTIFICATE_US} µs); the goal is ${GOAL * 100} %`)
  console.log(`load average ${loadavg()[0]?.toFixed(1)}`)
  if (share > GOAL) process.exitCode = 1
}
