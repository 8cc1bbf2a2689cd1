/**
 * Schema migrations: numbered SQL files, forward only, each in one transaction, the version row
 * first. A file that was released is never edited or renamed.
 */

import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { DatabaseSettings } from './database.ts'
import type pg from './pg.ts'
import { openSession } from './session.ts'

/** Compiled code is in dist/src/store; the SQL files are not copied there. */
const MIGRATIONS_DIR = fileURLToPath(new URL('../../../migrations/', import.meta.url))

/** Lets one migrator run at a time. */
const MIGRATION_LOCK = 712000

export interface Migration {
  version: number
  name: string
}

export interface SchemaState {
  applied: Migration[]
  pending: Migration[]
  /** Versions in the database that this release does not know, from a newer release. */
  unknown: number[]
}

/** The schema is not the one that this release needs; the message says what to do. */
export class SchemaMismatch extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'SchemaMismatch'
  }
}

/** The database has a migration of a former name. New files replaced those before the first release. */
export class UnreleasedSchema extends SchemaMismatch {
  constructor(migration: string) {
    super(
      `the database was made by a version before the first release (migration ${migration}), which no release can migrate; ` +
        'take an empty database and run "chancery -c CONFIG db migrate" on it; ' +
        'docs/operations/database.md, "A database from before the first release", says how to keep certificates and revocations',
    )
    this.name = 'UnreleasedSchema'
  }
}

export async function listMigrations(folder = MIGRATIONS_DIR): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => /^\d{4}_\w+\.sql$/.test(name)).sort()
  return names.map((name) => ({ version: Number(name.slice(0, 4)), name }))
}

/** @throws UnreleasedSchema */
export async function readSchemaState(settings: DatabaseSettings): Promise<SchemaState> {
  return withClient(settings, (client) => stateOf(client, MIGRATIONS_DIR))
}

/**
 * Applies the missing migrations.
 * @returns the migrations this call applied, in order
 * @throws SchemaMismatch when a newer release has already migrated the database
 */
export async function migrate(settings: DatabaseSettings, folder = MIGRATIONS_DIR): Promise<Migration[]> {
  return withClient(settings, async (client) => {
    await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK])
    const { pending, unknown } = await stateOf(client, folder)
    if (unknown.length > 0) throw newerSchema(unknown)
    for (const migration of pending) await apply(client, folder, migration)
    return pending
  })
}

/** @throws SchemaMismatch unless the database has exactly the migrations of this release */
export async function requireCurrentSchema(settings: DatabaseSettings): Promise<void> {
  const { pending, unknown } = await readSchemaState(settings)
  if (unknown.length > 0) throw newerSchema(unknown)
  if (pending.length > 0)
    throw new SchemaMismatch(
      `the database lacks ${pending.length} migration(s), from ${pending[0]?.name}; run "chancery -c CONFIG db migrate" or set database.auto_setup`,
    )
}

function newerSchema(unknown: readonly number[]): SchemaMismatch {
  return new SchemaMismatch(
    `the database has migration ${unknown.join(', ')}, which this release does not know; run the newer release`,
  )
}

async function stateOf(client: pg.Client, folder: string): Promise<SchemaState> {
  const known = await listMigrations(folder)
  const { rows: exists } = await client.query("SELECT to_regclass('schema_migrations') IS NOT NULL AS there")
  const rows: Migration[] = exists[0]?.there
    ? (await client.query('SELECT version, name FROM schema_migrations ORDER BY version')).rows
    : []
  const former = rows.find((row) => known.some(({ version, name }) => version === row.version && name !== row.name))
  if (former) throw new UnreleasedSchema(former.name)
  const applied = new Set(rows.map((row) => row.version))
  return {
    applied: known.filter(({ version }) => applied.has(version)),
    pending: known.filter(({ version }) => !applied.has(version)),
    unknown: [...applied].filter((version) => !known.some((migration) => migration.version === version)),
  }
}

async function apply(client: pg.Client, folder: string, { version, name }: Migration): Promise<void> {
  const sql = await readFile(path.join(folder, name), 'utf8')
  await client.query('BEGIN')
  try {
    await client.query(
      `CREATE TABLE IF NOT EXISTS schema_migrations (
         version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`,
    )
    await client.query('INSERT INTO schema_migrations (version, name) VALUES ($1, $2)', [version, name])
    await client.query(sql)
    await client.query('COMMIT')
  } catch (cause) {
    await client.query('ROLLBACK')
    throw new Error(`migration ${name} failed: ${(cause as Error).message}`, { cause })
  }
}

async function withClient<T>(settings: DatabaseSettings, run: (client: pg.Client) => Promise<T>): Promise<T> {
  // Migrating large tables, or waiting for another migrator, may exceed the time of a request's
  // statement.
  const client = await openSession({ ...settings, statementTimeoutMs: 0 })
  try {
    return await run(client)
  } finally {
    await client.end()
  }
}
