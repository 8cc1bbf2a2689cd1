/**
 * What do clients notice while a million of ten million certificates are archived?
 *
 * `node compiled/test/load/archive.js postgres://… [CERTIFICATES [FLOWS]]` starts a service on a database that admin-lists.ts has filled,
 * lets 50 flows a second come, starts it again with the archive, and lets them come until the archive has
 * taken so many. It prints latencies of each 20 s, rows a second, WAL, and sizes before, after, and after a vacuum.
 */

import { readdirSync, statSync } from 'node:fs'
import path from 'node:path'
import pg from 'pg'
import { certificateLines } from '../../src/services/archive/archive-files.ts'
import { type ArchivedCertificate, findArchived, verifyArchive } from '../../src/services/archive/archive-reader.ts'
import { migrate } from '../../src/store/schema/migrate.ts'
import { settingsFor } from '../store/support.ts'
import { resultsIn, runBench } from '../support/bench.ts'
import type { TestDatabase } from '../support/database.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const WINDOW_SECONDS = 20
const DAY_MS = 86_400_000
const TABLES = ['certificates', 'orders']

const url = new URL(process.argv[2] ?? '')
const wanted = Number(process.argv[3] ?? 1_000_000)
const flows = process.argv[4] ?? '50'
const connection = { host: url.hostname, port: Number(url.port), user: url.username, database: url.pathname.slice(1) }
const client = new pg.Client(connection)
await client.connect()
const rows = async (text: string, values: unknown[] = []) => (await client.query(text, values)).rows
const folder = temporaryFolder()
const archive_dir = path.join(folder, 'archive')
// The database is the caller's, who has made it for this.
const database = { connection: { ...connection, password: '' }, drop: async () => undefined } as unknown as TestDatabase

async function sizes(): Promise<string> {
  const found = await rows(
    `SELECT relname, relkind, pg_size_pretty(pg_relation_size(oid)) AS size FROM pg_class
      WHERE oid = ANY ($1::regclass[]) OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = ANY ($1::regclass[]))
      ORDER BY relkind DESC, pg_relation_size(oid) DESC`,
    [TABLES],
  )
  return found.map(({ relname, size }) => `${relname} ${size}`).join(', ')
}

const since = (startedAt: number) => `${((performance.now() - startedAt) / 1000).toFixed(1)} s`
const lsn = async () => String((await rows('SELECT pg_current_wal_lsn() AS lsn'))[0]?.lsn)
async function walSince(start: string): Promise<number> {
  return Number((await rows('SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1) AS bytes', [start]))[0]?.bytes)
}

async function oneWindow(service: TestService, name: string): Promise<void> {
  const start = await lsn()
  const json = path.join(folder, 'bench.json')
  const load = ['--rate', flows, '--duration', String(WINDOW_SECONDS), '--warmup', '2', '--clients', '8']
  const place = ['--directory', service.directoryUrl, '--http01-port', String(service.http01Port), '--dns-port', '0']
  await runBench(folder, ...place, ...load, '--tlsalpn01-port', '0', '--json', json)
  for (const { latency, succeeded, failed } of resultsIn(json)) {
    const ms = (['p50', 'p90', 'p99', 'max'] as const).map((of) => `${of} ${latency[of].toFixed(0)}`)
    const mb = ((await walSince(start)) / 2 ** 20).toFixed(0)
    console.log(`${name}: ${ms.join(', ')} ms; ${succeeded} flows, ${failed} failed; ${mb} MB of WAL`)
  }
}

/** As autovacuum works, which pauses. */
async function vacuum(): Promise<void> {
  const beside = new pg.Client(connection)
  await beside.connect()
  await beside.query('SET vacuum_cost_delay = 2')
  for (const table of TABLES) {
    const startedAt = performance.now()
    await beside.query(`VACUUM ${table}`)
    console.log(`VACUUM ${table}: ${since(startedAt)}`)
  }
  await beside.end()
}

try {
  // Migrated before its size is taken.
  await migrate(settingsFor(database.connection))
  const [last] = await rows('SELECT not_after FROM certificates ORDER BY not_after OFFSET $1 LIMIT 1', [wanted])
  if (!last) throw new Error('the database has fewer certificates')
  const days = Math.ceil((Date.now() - (last['not_after'] as Date).getTime()) / DAY_MS)
  console.log(`before: ${await sizes()}`)
  const quiet = await startTestService({ database, fronts: 1 })
  await oneWindow(quiet, 'without the archive')
  await quiet.stop()

  const retention = { certificates_days_after_expiry: days, archive_dir, cleanup_loop_interval_seconds: 1 }
  const start = await lsn()
  const startedAt = performance.now()
  const service = await startTestService({ continueFrom: quiet, fronts: 1, config: { retention } })
  const ended = () => service.log.find(({ task, taken }) => task === 'certificate_archive' && taken !== undefined)
  const watch = setInterval(() => {
    if (!ended()) return
    clearInterval(watch)
    console.log(`${String(ended()?.['taken'])} removed in ${since(startedAt)}`)
  }, 500)
  while (!ended()) await oneWindow(service, `archiving, after ${since(startedAt)}`)
  console.log(`${((await walSince(start)) / 2 ** 20).toFixed(0)} MB of WAL since the start`)
  const bytes = readdirSync(archive_dir).reduce((sum, name) => sum + statSync(path.join(archive_dir, name)).size, 0)
  const verifying = performance.now()
  const { files, certificates, faults } = await verifyArchive(archive_dir)
  console.log(
    `${files} files, ${certificates} certificates, ${(bytes / 2 ** 20).toFixed(0)} MB, ${faults.length} faults; verified in ${since(verifying)}`,
  )
  const [first = ''] = readdirSync(archive_dir).toSorted()
  for await (const line of certificateLines(archive_dir, first)) {
    const searching = performance.now()
    const found = await findArchived(archive_dir, (JSON.parse(line) as ArchivedCertificate).serial_number)
    console.log(`one of the oldest file found in ${since(searching)}: ${found.file}`)
    break
  }
  console.log(`after: ${await sizes()}`)
  let isVacuumed = false
  const vacuuming = vacuum().then(() => {
    isVacuumed = true
  })
  while (!isVacuumed) await oneWindow(service, 'during the vacuum')
  await vacuuming
  await oneWindow(service, 'after it')
  await service.stop()
  console.log(`after a vacuum: ${await sizes()}`)
  await quiet.dispose()
} finally {
  await client.end()
}
