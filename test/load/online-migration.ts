/**
 * Does an upgrade of a large database fail a flow of the instances that serve meanwhile?
 *
 * `node compiled/test/load/online-migration.js [CERTIFICATES] [COMMIT] [DATABASE]`: two instances of an older build (default: the
 * first release, 5e5b443b) issue on a database with so many certificates (default 1,000,000), while this build migrates it with
 * its own migrations and one of each kind (test/fixtures/next-release), beside a pg_dump. DATABASE names one on the server of
 * CHANCERY_TEST_POSTGRES that is filled already and has the schema of that commit; it is migrated for good.
 * It ends with 1 when a request or a flow has failed.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { loadavg } from 'node:os'
import path from 'node:path'
import { buildCommit, commitOf, removeCheckout } from '../../bench/servers/build.ts'
import { renderPlan } from '../../src/cli/host/database-commands.ts'
import { migrate } from '../../src/store/schema/migrate.ts'
import { planMigrations } from '../../src/store/schema/migration-plan.ts'
import { settingsFor } from '../store/support.ts'
import { closeConnections, send, startResponder } from '../support/acme-client.ts'
import { type SteadyFlows, startFlows, summary } from '../support/clients/steady-flows.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { fillWithCertificates } from '../support/databases/many-certificates.ts'
import { nextReleaseMigrations } from '../support/databases/next-release.ts'
import { type DatabaseConnection, givenPostgres } from '../support/postgres.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const [certificates = '1000000', ref = '5e5b443b', databaseName] = process.argv.slice(2)
const BASELINE_MS = 20_000
const AFTERWARDS_MS = 10_000
const CLIENTS = 4

const startedAt = performance.now()
const say = (line: string) =>
  console.log(`${((performance.now() - startedAt) / 1000).toFixed(1).padStart(7)} s  ${line}`)
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const cleanups: (() => unknown)[] = []

try {
  await run()
} finally {
  for (const clean of cleanups.toReversed()) await clean()
}

async function run(): Promise<void> {
  const root = await olderBuild()
  const database = await largeDatabase()
  const folder = nextReleaseMigrations()
  cleanups.push(() => rmSync(folder, { recursive: true }))
  const instances = await startInstances(root, database)
  const responder = await startResponder(instances[0]?.http01Port as number)
  cleanups.push(() => responder.close(), closeConnections)
  const flowsAt = ({ directoryUrl }: TestService) =>
    startFlows({ directoryUrl, responder, clients: CLIENTS, connect: () => ({ send, close: () => undefined }) })

  const before = await Promise.all(instances.map(flowsAt))
  await sleep(BASELINE_MS)
  await end('before', before)

  const settings = settingsFor(database.connection, 1)
  for (const line of renderPlan(await planMigrations(settings, folder))) console.log(line)
  const during = await Promise.all(instances.map(flowsAt))
  const dumped = dump(database.connection)
  await sleep(1_000)
  await migrate(settings, { folder, maxWaitMs: 3_600_000, report: reporter() })
  say('migrated')
  await dumped
  await sleep(AFTERWARDS_MS)
  await end('during', during)
  say(`load average ${loadavg()[0]?.toFixed(1)}`)
}

async function olderBuild(): Promise<string> {
  const { signal } = new AbortController()
  const root = path.join(temporaryFolder(), 'build')
  cleanups.push(() => removeCheckout(root))
  const commit = await commitOf(ref, signal)
  const build = await buildCommit({ ref, commit, root }, say, signal)
  return build.root
}

/** Empty ones get the migrations of this build, and so nothing of them would be tried; the fixtures are. */
async function largeDatabase(): Promise<TestDatabase> {
  const server = givenPostgres()
  if (databaseName !== undefined && server)
    return { connection: { ...server, database: databaseName }, drop: async () => undefined }
  const database = await testDatabase()
  cleanups.push(() => database.drop())
  await fillWithCertificates(database.connection, Number(certificates), say)
  return database
}

/** With the overload control of production. */
async function startInstances(root: string, database: TestDatabase): Promise<TestService[]> {
  const config = { nonce: { store: 'database' }, server: { workers: 1, overload: { enabled: true } } }
  const first = await startTestService({ root, database, config })
  cleanups.push(() => first.dispose())
  const challenges = { http01: { port: first.http01Port } }
  const second = await startTestService({ root, beside: first, config: { ...config, challenges } })
  cleanups.push(() => second.dispose())
  return [first, second]
}

/** Each sentence once, without the numbers that change in it. */
function reporter() {
  const said = new Set<string>()
  return (sentence: string) => {
    const kind = sentence.replaceAll(/\d+ (?:%|s\b)/g, '')
    if (!said.has(kind)) say(sentence)
    said.add(kind)
  }
}

async function dump(connection: DatabaseConnection): Promise<void> {
  const { host, port, user, database } = connection
  const args = ['-h', host, '-p', String(port), '-U', user, '-Fc', '-Z0', database]
  say('pg_dump begins')
  const child = spawn('pg_dump', args, { stdio: ['ignore', 'ignore', 'inherit'] })
  cleanups.push(() => child.kill())
  const [code] = await once(child, 'exit')
  say(`pg_dump has ended (${code})`)
}

async function end(when: string, flows: readonly SteadyFlows[]): Promise<void> {
  const ended = await Promise.allSettled(flows.map((one) => one.stop()))
  for (const { tally } of flows) {
    say(`${when}: ${summary(tally)}`)
    for (const failure of [...tally.failedRequests, ...tally.failedFlows].slice(0, 20)) say(`  ${failure}`)
  }
  if (ended.some(({ status }) => status === 'rejected')) process.exitCode = 1
}
