/**
 * Which migrations the database has, and whether this release can serve on them.
 *
 * A row of server_settings names the oldest release that can serve, by the newest migration which that release knows. So a
 * release can serve on a newer schema without knowing its migrations.
 */

import * as z from 'zod/v4'
import type pg from '../pg.ts'
import { type DatabaseSettings, openSession } from '../session.ts'
import { fourDigits, listMigrations, MIGRATIONS_DIR, type Migration, schemaOfRelease } from './migration-files.ts'

/** The schema of the first release, on which no older one can serve. */
export const FIRST_RELEASE = 8

export interface SchemaState {
  applied: Migration[]
  pending: Migration[]
  /** Versions in the database that this release does not know, from a newer release. */
  unknown: number[]
  /** The schema of the oldest release that can serve; undefined where a newer release does not say. */
  oldestRelease: number | undefined
  /** Nothing is missing, and what is unknown does not keep this release from serving. */
  isUsable: boolean
}

/** The schema is not one that this release can use; the message says what to do. */
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

/** @throws UnreleasedSchema */
export async function readSchemaState(settings: DatabaseSettings): Promise<SchemaState> {
  return withSchemaSession(settings, (client) => schemaStateOf(client, MIGRATIONS_DIR))
}

/** @throws SchemaMismatch unless the database has all migrations of this release, and no newer one that excludes it */
export async function requireUsableSchema(settings: DatabaseSettings): Promise<SchemaState> {
  const state = await readSchemaState(settings)
  const { pending, unknown, isUsable } = state
  if (pending.length > 0)
    throw new SchemaMismatch(
      `the database lacks ${pending.length} migration(s), from ${pending[0]?.name}; run "chancery -c CONFIG db migrate" or set database.auto_setup`,
    )
  if (!isUsable) throw newerSchema(unknown, state.oldestRelease, await schemaOfRelease())
  return state
}

export function newerSchema(unknown: readonly number[], oldest: number | undefined, own: number): SchemaMismatch {
  const needed = oldest === undefined ? '' : `, and serves releases from ${fourDigits(oldest)} on`
  return new SchemaMismatch(
    `the database has migration ${unknown.map(fourDigits).join(', ')}, which this release (${fourDigits(own)}) does not know${needed}; run the newer release`,
  )
}

export async function schemaStateOf(client: pg.Client, folder: string): Promise<SchemaState> {
  const known = await listMigrations(folder)
  const own = known.at(-1)?.version ?? 0
  const rows = await readRows(client)
  const former = rows.find((row) => known.some(({ version, name }) => version === row.version && name !== row.name))
  if (former) throw new UnreleasedSchema(former.name)
  const applied = new Set(rows.map((row) => row.version))
  const pending = known.filter(({ version }) => !applied.has(version))
  const unknown = [...applied].filter((version) => !known.some((migration) => migration.version === version))
  const oldestRelease = Math.max(...applied) > FIRST_RELEASE ? await readOldestRelease(client, applied) : FIRST_RELEASE
  return {
    applied: known.filter(({ version }) => applied.has(version)),
    pending,
    unknown,
    oldestRelease,
    isUsable: pending.length === 0 && (unknown.length === 0 || (oldestRelease !== undefined && oldestRelease <= own)),
  }
}

async function readRows(client: pg.Client): Promise<Migration[]> {
  if (!(await hasTable(client, 'schema_migrations'))) return []
  return (await client.query<Migration>('SELECT version, name FROM schema_migrations ORDER BY version')).rows
}

/** Undefined when what wrote it did not know all that was applied. */
async function readOldestRelease(client: pg.Client, applied: ReadonlySet<number>): Promise<number | undefined> {
  if (!(await hasTable(client, 'server_settings'))) return undefined
  const { rows } = await client.query<{ value: unknown }>("SELECT value FROM server_settings WHERE key = 'schema'")
  const said = Compatibility.safeParse(rows[0]?.value)
  return said.success && said.data.version >= Math.max(...applied) ? said.data.oldest_release : undefined
}

const Compatibility = z.object({ version: z.int(), oldest_release: z.int() })

/** In the transaction of the migration. The oldest release is that of the migrations before, or as the file says. */
export async function recordApplied(
  client: pg.Client,
  { version, name, contract }: Migration & { contract: number | undefined },
): Promise<void> {
  await client.query('INSERT INTO schema_migrations (version, name) VALUES ($1, $2)', [version, name])
  if (version > FIRST_RELEASE) await client.query(SAY_OLDEST, [version, contract ?? FIRST_RELEASE])
}

const SAY_OLDEST = `
  INSERT INTO server_settings AS s (key, value)
  VALUES ('schema', jsonb_build_object('version', $1::integer, 'oldest_release', $2::integer))
  ON CONFLICT (key) DO UPDATE SET updated_at = now(), value = jsonb_build_object(
    'version', $1::integer, 'oldest_release', greatest($2::integer, (s.value -> 'oldest_release')::integer))`

async function hasTable(client: pg.Client, name: string): Promise<boolean> {
  const { rows } = await client.query<{ there: boolean }>('SELECT to_regclass($1) IS NOT NULL AS there', [name])
  return rows[0]?.there === true
}

/** Migrating a large table, or waiting for another migrator, may exceed the time of a request's statement. */
export async function withSchemaSession<T>(
  settings: DatabaseSettings,
  run: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = await openSession({ ...settings, statementTimeoutMs: 0 })
  try {
    return await run(client)
  } finally {
    await client.end()
  }
}
