/**
 * An upgrade under load: an instance serves while the next release migrates its database beside a long reader, and another
 * one starts on the new schema. test/load/online-migration.ts does it with millions of certificates and an old build.
 */

import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { migrate } from '../../src/store/schema/migrate.ts'
import { listMigrations, readMigration } from '../../src/store/schema/migration-files.ts'
import { effectsOf, faultsOf } from '../../src/store/schema/migration-plan.ts'
import { settingsFor } from '../store/support.ts'
import { closeConnections, type Responder, send, startResponder } from '../support/acme-client.ts'
import { type SteadyFlows, startFlows, summary } from '../support/clients/steady-flows.ts'
import { rowsIn } from '../support/database.ts'
import { nextReleaseMigrations } from '../support/databases/next-release.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { until } from '../support/until.ts'

const config = { nonce: { store: 'database' }, server: { workers: 1 } }

describe('an upgrade under load', () => {
  const folder = nextReleaseMigrations()
  let first: TestService
  let second: TestService
  let responder: Responder
  before(async () => {
    first = await startTestService({ config })
    responder = await startResponder(first.http01Port)
  })
  after(async () => {
    closeConnections()
    await responder?.close()
    await second?.dispose()
    await first?.dispose()
    rmSync(folder, { recursive: true })
  })

  const settings = () => settingsFor(first.database.connection, 1)
  const flowsAt = ({ directoryUrl }: TestService): Promise<SteadyFlows> =>
    startFlows({ directoryUrl, responder, clients: 2, connect: () => ({ send, close: () => undefined }) })

  test('the fixtures are of every kind, and none that a release may not have', async () => {
    const files = await Promise.all((await listMigrations(folder)).map((one) => readMigration(folder, one)))
    const next = files.filter(({ version }) => version > 9000)
    assert.deepEqual(next.flatMap(faultsOf), [])
    assert.deepEqual([...new Set(next.flatMap(effectsOf).map(({ lasts }) => lasts))].sort(), [
      'build',
      'moment',
      'scan',
    ])
  })

  test('column, index, table, trigger and constraint beside a long reader: no request and no flow fails', async (t) => {
    const flows = await Promise.all([flowsAt(first), flowsAt(first)])
    await Promise.all(flows.map((one) => one.reached(2)))
    const reader = new pg.Client(first.database.connection)
    await reader.connect()
    await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await reader.query('SELECT count(*) FROM certificates, orders, accounts')
    const reports: string[] = []
    const migrating = migrate(settings(), { folder, report: (sentence) => reports.push(sentence) })
    await until('a lock that is not granted', () => reports.some((one) => one.includes('; trying again')))
    await reader.end()
    assert.equal((await migrating).length, 6)
    await Promise.all(flows.map((one) => one.reached(one.tally.flows + 4)))
    for (const one of flows) {
      await one.stop()
      t.diagnostic(summary(one.tally))
    }
    const [noted] = await rowsIn<{ n: number }>(first.database, 'SELECT count(*)::integer AS n FROM certificate_notes')
    assert.ok((noted?.n ?? 0) > 0, 'certificates of the release before are seen by the trigger of the next')
  })

  test('an instance of the release before starts on the schema of the next, says so, and issues', async () => {
    const challenges = { http01: { port: first.http01Port } }
    second = await startTestService({ beside: first, config: { ...config, challenges } })
    const said = await second.waitForLog('the database has the schema of a newer release, which serves this one, too')
    assert.deepEqual(
      { unknown: said['unknown'], oldest: said['oldest_release'] },
      { unknown: [9001, 9002, 9003, 9004, 9005, 9006], oldest: 8 },
    )
    const flows = await flowsAt(second)
    await flows.reached(2)
    await flows.stop()
  })

  test('a contract waits until no instance of the release before runs; then none starts', async () => {
    writeFileSync(path.join(folder, '9007_contract.sql'), '-- contract: 9006\nALTER TABLE orders DROP COLUMN priority')
    await assert.rejects(
      migrate(settings(), { folder }),
      /9007_contract\.sql is for releases from 9006 on, and instance \d+/,
    )
    await second.stop()
    await first.stop()
    assert.equal((await migrate(settings(), { folder })).length, 1)
    await assert.rejects(
      startTestService({ beside: first, config }),
      /serves releases from 9006 on; run the newer release/,
    )
  })
})
