/** Schema migrations: from nothing, again, by several starters, and what stops them. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import path from 'node:path'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import pg from 'pg'
import type { DatabaseSettings } from '../../src/store/database.ts'
import { migrate } from '../../src/store/schema/migrate.ts'
import { listMigrations } from '../../src/store/schema/migration-files.ts'
import { readSchemaState, requireUsableSchema, SchemaMismatch } from '../../src/store/schema/schema-state.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { each } from '../support/each.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { settingsFor } from './support.ts'

const MIGRATIONS = path.resolve(import.meta.dirname, '../../../migrations')

describe('migrations', () => {
  let migrated: TestDatabase
  let settings: DatabaseSettings
  let folder: string
  before(async () => {
    migrated = await testDatabase()
  })
  after(() => migrated.drop())

  /** An empty database for each test, made beside the migrated one. */
  beforeEach(async () => {
    const database = `empty_${randomBytes(6).toString('hex')}`
    settings = settingsFor({ ...migrated.connection, database }, 1)
    await sql(`CREATE DATABASE ${database}`, migrated.connection.database)
    folder = temporaryFolder()
    cpSync(MIGRATIONS, folder, { recursive: true })
  })
  afterEach(async () => {
    await sql(`DROP DATABASE ${settings.database} WITH (FORCE)`, migrated.connection.database)
  })

  async function sql(text: string, database = settings.database): Promise<Record<string, unknown>[]> {
    const client = new pg.Client({ ...migrated.connection, database })
    await client.connect()
    try {
      return (await client.query(text)).rows
    } finally {
      await client.end()
    }
  }

  const tables = () => sql("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'")
  const addMigration = (name: string, text: string) => writeFileSync(path.join(folder, name), text)

  test('a server that wants a password is named, and no connection is left that would keep the command from ending', async () => {
    // How a server with scram-sha-256 in pg_hba.conf begins: AuthenticationSASL (10), then AuthenticationSASLContinue (11).
    const authentication = (kind: number, text: string) =>
      Buffer.concat([Buffer.from('R'), Buffer.from([0, 0, 0, text.length + 8, 0, 0, 0, kind]), Buffer.from(text)])
    const answers = [authentication(10, 'SCRAM-SHA-256\0\0'), authentication(11, 'r=x,s=eA==,i=4096')]
    const server = createServer((socket) => {
      socket.on('data', () => socket.write(answers.shift() ?? ''))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const connected = once(server, 'connection') as Promise<[Socket]>
    try {
      const refusal = /^cannot connect to database \w+ at 127\.0\.0\.1:\d+ as \w+: the server asks for a password/
      await assert.rejects(readSchemaState({ ...settings, password: '', hosts: ['127.0.0.1'], port }), (error) =>
        refusal.test((error as Error).message),
      )
      const [socket] = await connected
      if (!socket.closed) await once(socket, 'close')
    } finally {
      server.close()
    }
  })

  test('an empty database gets all of them, in order, each with its row', async () => {
    const known = await listMigrations()
    assert.ok(known.length > 0)
    assert.deepEqual(await readSchemaState(settings), {
      applied: [],
      pending: known,
      unknown: [],
      oldestRelease: 8,
      isUsable: false,
    })
    await assert.rejects(requireUsableSchema(settings), SchemaMismatch)
    assert.deepEqual(await migrate(settings), known)
    assert.deepEqual(await sql('SELECT version, name FROM schema_migrations ORDER BY version'), known)
    assert.deepEqual(await readSchemaState(settings), {
      applied: known,
      pending: [],
      unknown: [],
      oldestRelease: 8,
      isUsable: true,
    })
    await requireUsableSchema(settings)
    assert.deepEqual(await migrate(settings), [], 'a second run does nothing')
  })

  test('five starters at once: each migration is applied by one of them', async () => {
    const applied = await Promise.all(Array.from({ length: 5 }, () => migrate(settings)))
    assert.deepEqual(applied.flat(), await listMigrations())
    await requireUsableSchema(settings)
  })

  test('only what is missing is applied', async () => {
    await migrate(settings)
    addMigration('9001_more.sql', 'CREATE TABLE more (id integer)')
    addMigration('notes.txt', 'no migration')
    assert.deepEqual(await migrate(settings, { folder }), [{ version: 9001, name: '9001_more.sql' }])
  })

  test('a database from before the first release is refused untouched, and the sentence says what to do', async () => {
    await sql(`CREATE TABLE schema_migrations (
      version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`)
    await sql(`INSERT INTO schema_migrations (version, name) VALUES
      (1, '0001_initial.sql'), (2, '0002_account_bindings.sql'), (68, '0068_audit_verifications.sql')`)
    const refusal = {
      name: 'UnreleasedSchema',
      message:
        /made by a version before the first release \(migration 0001_initial\.sql\).*empty database.*docs\/operations/,
    }
    for (const use of [migrate, readSchemaState, requireUsableSchema]) await assert.rejects(use(settings), refusal)
    assert.deepEqual(each(await tables(), 'relname'), ['schema_migrations'])
  })

  test('a failing one leaves nothing of itself, keeps those before it, and is repeated by the next run', async () => {
    addMigration('9001_good.sql', 'CREATE TABLE good (id integer)')
    addMigration('9002_bad.sql', 'CREATE TABLE bad (id integer); INSERT INTO nowhere VALUES (1)')
    addMigration('9003_after.sql', 'CREATE TABLE never (id integer)')
    await assert.rejects(migrate(settings, { folder }), /migration 9002_bad\.sql failed: .*nowhere/)
    const names = (await tables()).map(({ relname }) => relname)
    assert.ok(names.includes('good') && !names.includes('bad') && !names.includes('never'))
    const [last] = await sql('SELECT max(version) AS version FROM schema_migrations')
    assert.equal(last?.['version'], 9001)
    addMigration('9002_bad.sql', 'CREATE TABLE bad (id integer)')
    assert.deepEqual(each(await migrate(settings, { folder }), 'version'), [9002, 9003])
  })

  test('a long one is not cut off by the bound of ordinary statements', async () => {
    addMigration('9001_slow.sql', 'SELECT pg_sleep(0.6)')
    const impatient = { ...settings, statementTimeoutMs: 100 }
    const [first, second] = await Promise.all([migrate(impatient, { folder }), migrate(impatient, { folder })])
    assert.equal(first.length + second.length, (await listMigrations()).length + 1)
  })
})
