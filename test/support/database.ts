/**
 * A database for each test file: cloned from a template that holds the migrated, empty schema.
 *
 * The first caller of a run makes the template under an advisory lock; cloning it afterwards takes some tens of
 * milliseconds, so files neither share data nor pay for the migrations.
 */

import { createHash, randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import pg from 'pg'
import type { EmbeddedPostgres } from '../../src/dev/postgres.ts'
import { migrate } from '../../src/store/schema/migrate.ts'
import { WAIT_MS } from './patience.ts'
import { type DatabaseConnection, givenPostgres, PLAIN_SESSION, PLAIN_SETTINGS, startTestPostgres } from './postgres.ts'
import { until } from './until.ts'
import { noted } from './used-parts.ts'

export interface TestDatabase {
  connection: DatabaseConnection
  /** Ends what is still connected and deletes the database. */
  drop(): Promise<void>
}

const MIGRATIONS = path.resolve(import.meta.dirname, '../../../migrations')
/** Any number will do, as long as nothing else in these databases locks it. */
const TEMPLATE_LOCK = 8555_2
/** PostgreSQL cuts names after 63 bytes. */
const INSUFFICIENT_PRIVILEGE = '42501'
const LOCK_NOT_AVAILABLE = '55P03'
const NAME_BYTES = 8

/** Brings an empty database to the current schema, as `chancery db migrate` does. */
async function migrateTo(connection: DatabaseConnection): Promise<void> {
  await migrate({
    hosts: [connection.host],
    port: connection.port,
    database: connection.database,
    user: connection.user,
    password: connection.password ?? '',
    sslmode: 'disable',
    maxConnections: 1,
    connectionTimeoutMs: WAIT_MS,
    idleTimeoutMs: 10_000,
    statementTimeoutMs: WAIT_MS,
  })
}

/** The configuration's `database` is made without the settings of the tests' own sessions. */
export const databaseConfig = ({ options: _, ...place }: DatabaseConnection) => ({
  ...place,
  sslmode: 'disable' as const,
})

/** For options such as `--from`. */
export function addressOf({ host, port, user, database }: DatabaseConnection): string {
  return `postgres:///${database}?${new URLSearchParams({ host, port: String(port), user, sslmode: 'disable' })}`
}

/** A fresh database with the current schema. The caller drops it, in `after`. */
export async function testDatabase(): Promise<TestDatabase> {
  const server = givenPostgres() ?? (await ownServer())
  return createDatabase(server, `TEMPLATE ${await requireTemplate(server)}`)
}

/** Another one with the same rows. Nobody may be connected to the first. */
export const copyOf = async ({ connection }: TestDatabase): Promise<TestDatabase> =>
  createDatabase(givenPostgres() ?? (await ownServer()), `TEMPLATE ${connection.database}`)

/** A fresh database without a schema, for a release that makes its own. The one before needs PostgreSQL's own settings. */
export async function emptyDatabase(): Promise<TestDatabase> {
  const server = givenPostgres() ?? (await ownServer())
  const made = await createDatabase(server)
  await withClient(server, async (client) => {
    for (const [name, value] of Object.entries(PLAIN_SETTINGS))
      await client.query(`ALTER DATABASE ${made.connection.database} SET ${name} = '${value}'`)
  })
  return made
}

async function createDatabase(server: DatabaseConnection, options = ''): Promise<TestDatabase> {
  const database = `test_${randomBytes(NAME_BYTES).toString('hex')}`
  const create = `CREATE DATABASE ${database} ${options}`
  await noted('database', () => withClient(server, (client) => client.query(create)))
  users += 1
  return {
    connection: { ...server, database, options: PLAIN_SESSION },
    async drop() {
      await withClient(server, (client) => dropDatabase(client, database))
      users -= 1
      if (users === 0) await stopOwnServer()
    },
  }
}

/** One statement of a test on this database. */
export async function rowsIn<R extends pg.QueryResultRow>(
  { connection }: TestDatabase,
  text: string,
  values: unknown[] = [],
): Promise<R[]> {
  return withClient(connection, async (client) => (await client.query<R>(text, values)).rows)
}

export type Sql = <R extends object = Record<string, unknown>>(text: string, values?: unknown[]) => Promise<R[]>

/** `rowsIn` for a suite whose database is there later. */
export const sqlOn =
  (database: () => TestDatabase): Sql =>
  (text, values) =>
    rowsIn(database(), text, values)

/** How many of its sessions wait for a lock. Not asked in a transaction, which sees the activity as it was at its first look. */
export const waitersIn = async (database: TestDatabase): Promise<number> => {
  const waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
  return (await rowsIn(database, waiting)).length
}

export const untilWaiting = (database: TestDatabase, count = 1) =>
  until(`${count} wait for a lock`, async () => (await waitersIn(database)) >= count)

/**
 * Empties all tables but those whose names are LIKE one of `kept`, and does `with` in the same transaction.
 *
 * A service that runs locks them in another order. So this session, which holds many, gives way before PostgreSQL looks for a deadlock.
 */
export async function emptyTables(
  database: TestDatabase,
  { kept, with: more }: { kept: readonly string[]; with: string },
) {
  const tables = await rowsIn<{ name: string }>(
    database,
    `SELECT quote_ident(tablename) AS name FROM pg_tables
      WHERE schemaname = 'public' AND NOT tablename LIKE ANY ($1)`,
    [kept],
  )
  const names = tables.map(({ name }) => name).join(', ')
  const statements = `BEGIN; SET LOCAL lock_timeout = '200ms'; TRUNCATE ${names}; ${more}; COMMIT`
  const isDone = () =>
    rowsIn(database, statements).then(
      () => true,
      (error: pg.DatabaseError) => {
        if (error.code !== LOCK_NOT_AVAILABLE) throw error
        return false
      },
    )
  await until('nobody else holds a table', isDone)
}

/** An ordinary role may not end the autovacuum worker that happens to be there; without FORCE the server itself sends it away. */
async function dropDatabase(client: pg.Client, database: string): Promise<void> {
  try {
    await client.query(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`)
  } catch (error) {
    if ((error as pg.DatabaseError).code !== INSUFFICIENT_PRIVILEGE) throw error
    await client.query(`DROP DATABASE IF EXISTS ${database}`)
  }
}

/** The server of a file that is run alone; it lives as long as this process has a database. */
let own: Promise<EmbeddedPostgres> | undefined
let users = 0

async function ownServer(): Promise<DatabaseConnection> {
  own ??= startTestPostgres()
  return (await own).connection
}

async function stopOwnServer(): Promise<void> {
  const server = await own
  own = undefined
  await server?.stop()
}

function migrationFiles(): { name: string; sql: string }[] {
  const names = existsSync(MIGRATIONS) ? readdirSync(MIGRATIONS).filter((name) => name.endsWith('.sql')) : []
  return names.sort().map((name) => ({ name, sql: readFileSync(path.join(MIGRATIONS, name), 'utf8') }))
}

/** Makes the template once per set of migrations and server; it gets its name only when it is complete. */
async function requireTemplate(server: DatabaseConnection): Promise<string> {
  const digest = createHash('sha256').update(JSON.stringify(migrationFiles())).digest('hex')
  const template = `template_${digest.slice(0, 2 * NAME_BYTES)}`
  await withClient(server, async (client) => {
    await client.query('SELECT pg_advisory_lock($1)', [TEMPLATE_LOCK])
    const { rowCount } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [template])
    if (rowCount !== 0) return
    const half = `${template}_half`
    await client.query(`DROP DATABASE IF EXISTS ${half} WITH (FORCE)`)
    await client.query(`CREATE DATABASE ${half}`)
    await migrateTo({ ...server, database: half })
    await client.query(`ALTER DATABASE ${half} RENAME TO ${template}`)
  })
  return template
}

/** One connection for one piece of work; an advisory lock taken on it ends with it. */
async function withClient<T>(connection: DatabaseConnection, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(connection)
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
