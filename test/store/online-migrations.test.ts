/** Migrations while others use the database: locks that are not granted, indexes built beside writers, releases beside each other. */

import assert from 'node:assert/strict'
import { cpSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import pg from 'pg'
import { renderPlan, renderRollbackPoint } from '../../src/cli/host/database-commands.ts'
import type { DatabaseSettings } from '../../src/store/database.ts'
import { announceInstance } from '../../src/store/instance-presence.ts'
import { type MigrateOptions, migrate } from '../../src/store/schema/migrate.ts'
import { listMigrations } from '../../src/store/schema/migration-files.ts'
import { planMigrations } from '../../src/store/schema/migration-plan.ts'
import { readRollbackPoint, readSchemaState, requireUsableSchema } from '../../src/store/schema/schema-state.ts'
import { rowsIn, type TestDatabase, testDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { settingsFor } from './support.ts'

const MIGRATIONS = path.resolve(import.meta.dirname, '../../../migrations')
const NEWEST = (await listMigrations()).at(-1)?.version ?? 0
const RELEASE = String(NEWEST).padStart(4, '0')

describe('migrations while others use the database', () => {
  let database: TestDatabase
  let settings: DatabaseSettings
  let folder: string
  let reports: string[]
  let clients: pg.Client[]
  beforeEach(async () => {
    database = await testDatabase()
    settings = settingsFor(database.connection, 1)
    folder = temporaryFolder()
    cpSync(MIGRATIONS, folder, { recursive: true })
    reports = []
    clients = []
  })
  afterEach(async () => {
    await Promise.all(clients.map((client) => client.end()))
    await database.drop()
  })

  async function session(applicationName: string): Promise<pg.Client> {
    const client = new pg.Client({ ...database.connection, application_name: applicationName })
    await client.connect()
    clients.push(client)
    return client
  }

  /** A transaction that reads, as that of pg_dump. */
  async function longReader(table: string): Promise<pg.Client> {
    const reader = await session('long reader')
    await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await reader.query(`SELECT FROM ${table}`)
    return reader
  }

  /** A transaction that has written and goes on. */
  async function openWriter(): Promise<pg.Client> {
    const writer = await session('writer')
    await writer.query('BEGIN')
    await writer.query("INSERT INTO accounts (id, thumbprint, jwk) VALUES (gen_random_uuid(), 'open', '{}')")
    return writer
  }
  const INDEX = '-- concurrently\nCREATE INDEX CONCURRENTLY accounts_later ON accounts (updated_at);'
  /** With one value in `terms_version`. */
  const TWO_ACCOUNTS = `INSERT INTO accounts (id, thumbprint, jwk, terms_version)
    VALUES (gen_random_uuid(), 'a', '{}', 'x'), (gen_random_uuid(), 'b', '{}', 'x')`

  const addMigration = (name: string, text: string) => writeFileSync(path.join(folder, name), text)
  const migrateNow = (options: MigrateOptions = {}) =>
    migrate(settings, { folder, report: (sentence) => reports.push(sentence), ...options })
  const untilReported = (wanted: RegExp) =>
    until(`a report like ${wanted}`, () => reports.find((one) => wanted.test(one)))
  const indexes = async (name: string) =>
    (
      await rowsIn<{ valid: boolean }>(
        database,
        'SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = to_regclass($1)',
        [name],
      )
    ).map(({ valid }) => valid)

  test('a lock that is not granted is given up, so that readers pass, and tried again until it is; the holder is named', async () => {
    addMigration('9001_column.sql', 'ALTER TABLE accounts ADD COLUMN later text')
    const reader = await longReader('accounts')
    const migrating = migrateNow()
    await untilReported(
      /^9001_column\.sql: locked by process \d+ \(long reader, for \d+ s in a transaction\); trying again$/,
    )
    await rowsIn(database, 'SELECT FROM accounts')
    await reader.query('COMMIT')
    assert.deepEqual(await migrating, [{ version: 9001, name: '9001_column.sql' }])
    assert.match(reports.at(-1) ?? '', /^applied 9001_column\.sql in \d+\.\d s$/)
  })

  test('after the given time it gives up, says who has the lock, and nothing was changed', async () => {
    addMigration('9001_column.sql', 'CREATE TABLE half (id integer); ALTER TABLE accounts ADD COLUMN later text')
    await longReader('accounts')
    await assert.rejects(
      migrateNow({ maxWaitMs: 0 }),
      /^Error: migration 9001_column\.sql failed: locked by process \d+ \(long reader/,
    )
    assert.deepEqual(await rowsIn(database, "SELECT to_regclass('half') AS half"), [{ half: null }])
    assert.deepEqual((await readSchemaState(settings)).unknown, [])
  })

  test('an index is built beside an open transaction, which the report names, and writers pass meanwhile', async () => {
    addMigration('9001_index.sql', INDEX)
    const writer = await openWriter()
    const migrating = migrateNow()
    await untilReported(
      /^9001_index\.sql: accounts_later: waiting for writers before build.*, waits for process \d+ \(writer/,
    )
    await rowsIn(database, "INSERT INTO accounts (id, thumbprint, jwk) VALUES (gen_random_uuid(), 'meanwhile', '{}')")
    await writer.query('COMMIT')
    await migrating
    assert.deepEqual(await indexes('accounts_later'), [true])
  })

  test('a migrator that waits for another one holds up no index', async () => {
    addMigration('9001_index.sql', INDEX)
    const writer = await openWriter()
    const both = Promise.all([migrateNow(), migrateNow()])
    await untilReported(/^another migrator is at work/)
    await untilReported(/waits for process \d+ \(writer/)
    await writer.query('COMMIT')
    const applied = await both
    assert.deepEqual(applied.flat(), [{ version: 9001, name: '9001_index.sql' }])
  })

  test('an index that an interruption has left is dropped and built again', async () => {
    await rowsIn(database, TWO_ACCOUNTS)
    const build = 'CREATE UNIQUE INDEX CONCURRENTLY accounts_later ON accounts (terms_version)'
    await assert.rejects(rowsIn(database, build), /could not create unique index/)
    assert.deepEqual(await indexes('accounts_later'), [false])
    await rowsIn(database, 'UPDATE accounts SET terms_version = thumbprint')
    addMigration('9001_index.sql', `-- concurrently\n${build};`)
    await migrateNow()
    assert.deepEqual(await indexes('accounts_later'), [true])
  })

  test('an index that cannot be built leaves nothing, and what was built before it is not built again', async () => {
    await rowsIn(database, TWO_ACCOUNTS)
    addMigration(
      '9001_index.sql',
      `-- concurrently
      CREATE INDEX CONCURRENTLY accounts_first ON accounts (updated_at);
      CREATE UNIQUE INDEX CONCURRENTLY accounts_later ON accounts (terms_version);`,
    )
    await assert.rejects(migrateNow(), /migration 9001_index\.sql failed: could not create unique index/)
    assert.deepEqual(await indexes('accounts_later'), [])
    const [first] = await rowsIn(database, "SELECT 'accounts_first'::regclass::oid AS oid")
    await rowsIn(database, 'UPDATE accounts SET terms_version = thumbprint')
    await migrateNow()
    assert.deepEqual(await rowsIn(database, "SELECT 'accounts_first'::regclass::oid AS oid"), [first])
  })

  test('a statement that cannot be repeated is refused in a concurrent file before anything is done', async () => {
    addMigration(
      '9001_mixed.sql',
      '-- concurrently\nCREATE INDEX CONCURRENTLY accounts_later ON accounts (updated_at); CREATE TABLE t (id integer)',
    )
    await assert.rejects(migrateNow(), /cannot repeat this statement: CREATE TABLE t \(id integer\)$/)
    assert.deepEqual(await indexes('accounts_later'), [])
  })

  test('a constraint is validated beside an open transaction', async () => {
    addMigration(
      '9001_constraint.sql',
      "ALTER TABLE accounts ADD CONSTRAINT some_status CHECK (status <> '') NOT VALID",
    )
    addMigration('9002_validate.sql', '-- concurrently\nALTER TABLE accounts VALIDATE CONSTRAINT some_status')
    await migrateNow()
    const valid = "SELECT convalidated FROM pg_constraint WHERE conname = 'some_status'"
    assert.deepEqual(await rowsIn(database, valid), [{ convalidated: true }])
  })

  test('a release serves on a newer schema until a migration excludes it; then it is refused with a sentence', async () => {
    addMigration('9001_table.sql', 'CREATE TABLE later (id integer)')
    await migrateNow()
    const { isUsable, unknown, oldestRelease } = await requireUsableSchema(settings)
    assert.deepEqual({ isUsable, unknown, oldestRelease }, { isUsable: true, unknown: [9001], oldestRelease: 8 })
    assert.deepEqual(await migrate(settings), [])

    addMigration('9002_contract.sql', '-- contract: 9001\nALTER TABLE accounts DROP COLUMN terms_version')
    await migrateNow()
    const refusal = {
      name: 'SchemaMismatch',
      message: `the database has migration 9001, 9002, which this release (${RELEASE}) does not know, and serves releases from 9001 on; run the newer release`,
    }
    await assert.rejects(requireUsableSchema(settings), refusal)
    await assert.rejects(migrate(settings), refusal)

    addMigration('9003_table.sql', 'CREATE TABLE latest (id integer)')
    await migrateNow()
    assert.equal((await readSchemaState(settings)).oldestRelease, 9001)
  })

  test('a newer migration that says nothing about older releases excludes them', async () => {
    addMigration('9001_table.sql', 'CREATE TABLE later (id integer)')
    await migrateNow()
    await rowsIn(database, "INSERT INTO schema_migrations (version, name) VALUES (9002, '9002_unsaid.sql')")
    const refusal = {
      name: 'SchemaMismatch',
      message: /9001, 9002, which this release \(\d{4}\) does not know; run the newer release/,
    }
    for (const use of [migrate, requireUsableSchema]) await assert.rejects(use(settings), refusal)
    assert.deepEqual((await readSchemaState(settings)).unknown, [9001, 9002])
  })

  test('a migration that excludes a release is not applied while an instance of that release runs', async () => {
    addMigration('9001_table.sql', 'CREATE TABLE later (id integer)')
    addMigration('9002_contract.sql', '-- contract: 9001\nALTER TABLE accounts DROP COLUMN terms_version')
    const presence = await announceInstance(settings, () => undefined)
    try {
      await assert.rejects(migrateNow(), {
        message: `migration 9002_contract.sql is for releases from 9001 on, and instance ${presence.instanceId} (release ${RELEASE}) still runs; replace it, then run "db migrate" again`,
      })
    } finally {
      await presence.close()
    }
    assert.deepEqual((await readSchemaState(settings)).unknown, [9001])
    await migrateNow()
    assert.deepEqual((await readSchemaState(settings)).unknown, [9001, 9002])
  })

  test('the plan names tables, their sizes, locks and who waits, and changes nothing', async () => {
    addMigration('9001_table.sql', 'CREATE TABLE later (id integer)')
    addMigration(
      '9002_column.sql',
      '-- contract: 9001\nALTER TABLE accounts ADD COLUMN a text; ALTER TABLE later ADD COLUMN b text',
    )
    addMigration('9003_index.sql', '-- concurrently\nCREATE INDEX CONCURRENTLY accounts_later ON accounts (a)')
    await rowsIn(
      database,
      "INSERT INTO accounts (id, thumbprint, jwk) SELECT gen_random_uuid(), n, '{}' FROM generate_series(1, 1000) n",
    )
    await rowsIn(database, 'ANALYZE accounts')
    const text = renderPlan(await planMigrations(settings, folder))
    assert.deepEqual(
      text.map((line) => line.replace(/, [\d.]+ KiB/, ', SIZE')),
      [
        '9001_table.sql, one transaction',
        '  locks no table that is there',
        '9002_column.sql, one transaction',
        '  after it, releases before 9001 cannot serve',
        '  accounts (1,000 rows, SIZE): for a moment, everybody waits (ACCESS EXCLUSIVE)',
        '    ALTER TABLE accounts ADD COLUMN a text',
        '  later (new): for a moment, everybody waits (ACCESS EXCLUSIVE)',
        '    ALTER TABLE later ADD COLUMN b text',
        '9003_index.sql, each statement alone',
        '  accounts (1,000 rows, SIZE): read whole, about 1 s, nobody waits (SHARE UPDATE EXCLUSIVE)',
        '    CREATE INDEX CONCURRENTLY accounts_later ON accounts (a)',
        'nothing was changed',
      ],
    )
    assert.deepEqual((await readSchemaState(settings)).unknown, [])
  })

  test('the rollback point names the releases that can serve, what they do not do, and what a restore would lose', async () => {
    addMigration('9001_table.sql', '-- Notes.\n-- going back: notes are not written.\nCREATE TABLE later (id integer)')
    await migrateNow()
    addMigration('9002_contract.sql', `-- contract: ${NEWEST}\nALTER TABLE accounts DROP COLUMN terms_version`)
    const before = await readRollbackPoint(settings, folder)
    assert.deepEqual(
      { ...before, without: before.without.filter(({ name }) => name.startsWith('9')) },
      {
        schema: 9001,
        oldestRelease: 8,
        without: [{ name: '9001_table.sql', goingBack: 'notes are not written.' }],
        excluded: undefined,
        next: { name: '9002_contract.sql', contract: NEWEST },
      },
    )
    await migrateNow()
    const lines = renderRollbackPoint(await readRollbackPoint(settings, folder))
    assert.deepEqual(lines.slice(0, 5), [
      'the database has schema 9002',
      `releases from ${RELEASE} on that have this command can serve on it: install one and restart, the database stays as it is`,
      '  without 9001_table.sql: notes are not written.',
      '  without 9002_contract.sql: nothing is missed',
      'no pending migration changes that',
    ])
    assert.match(
      lines.at(-1) ?? '',
      /^9002_contract\.sql excluded older ones at 20[^ ]+Z: they need a backup from before, without the 0 certificates and 0 revocations since$/,
    )
  })
})
