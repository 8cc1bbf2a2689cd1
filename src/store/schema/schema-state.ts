/**
 * Which migrations the database has, and whether this release can serve on them.
 *
 * A row of server_settings names the oldest release that can serve, by the newest migration which that release knows. So a
 * release can serve on a newer schema without knowing its migrations.
 */

import * as z from 'zod/v4'
import type pg from '../pg.ts'
import { type DatabaseSettings, openSession } from '../session.ts'
import {
  fourDigits,
  listMigrations,
  MIGRATIONS_DIR,
  type Migration,
  type MigrationFile,
  readMigration,
  schemaOfRelease,
} from './migration-files.ts'

/** The schema of the first release, on which no older one can serve. */
export const FIRST_RELEASE = 8

interface SchemaState {
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
class UnreleasedSchema extends SchemaMismatch {
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

/** Part of the transaction of the migration. The migrations before name the oldest release, or the file does. */
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

/**
 * The first half of the presence lock's key; the instance id is the second. `live_instances()` in SQL uses it, too.
 * Beside that lock, an instance holds one that names its release by the newest migration it knows.
 */
export const PRESENCE_CLASS = 712100

/** The same of the release's lock; the second half is the version of the migration. Instances share it. */
export const RELEASE_CLASS = 712101

interface RunningInstance {
  id: number
  /** The newest migration that it knows. The first release does not say. */
  release: number
}

const RUNNING = `
  WITH locks AS (
    SELECT pid, classid, objid::bigint::integer AS value FROM pg_locks
     WHERE locktype = 'advisory' AND objsubid = 2 AND granted
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  )
  SELECT i.value AS id, coalesce(r.value, $1) AS release
    FROM locks i LEFT JOIN locks r ON r.pid = i.pid AND r.classid = $2
   WHERE i.classid = $3 ORDER BY id`

export async function runningInstances(client: pg.Client): Promise<RunningInstance[]> {
  return (await client.query<RunningInstance>(RUNNING, [FIRST_RELEASE, RELEASE_CLASS, PRESENCE_CLASS])).rows
}

/** Which releases can serve on the database as it is, and what they would miss. */
export interface RollbackPoint {
  /** The newest migration of the database; 0 for an empty one. */
  schema: number
  /** The schema of the oldest release that can serve on it; undefined where a newer release does not say. */
  oldestRelease: number | undefined
  /** Migrations that such a release does not know, and what it therefore does not do; undefined where it misses nothing. */
  without: { name: string; goingBack: string | undefined }[]
  /** The last migration that has excluded releases; undefined when none has. */
  excluded: { name: string; appliedAt: Date; certificates: number; revocations: number } | undefined
  /** A pending migration that will exclude releases. */
  next: { name: string; contract: number } | undefined
}

/** @throws UnreleasedSchema */
export async function readRollbackPoint(settings: DatabaseSettings, folder = MIGRATIONS_DIR): Promise<RollbackPoint> {
  return withSchemaSession(settings, async (client) => {
    const { applied, pending, unknown, oldestRelease } = await schemaStateOf(client, folder)
    const files = await Promise.all([...applied, ...pending].map((migration) => readMigration(folder, migration)))
    const [done, missing] = [files.slice(0, applied.length), files.slice(applied.length)]
    const contracts = done.filter(({ contract }) => contract !== undefined)
    const next = missing.find(({ contract }) => contract !== undefined)
    return {
      schema: Math.max(0, ...applied.map(({ version }) => version), ...unknown),
      oldestRelease,
      without: done
        .filter(({ version }) => version > (oldestRelease ?? version))
        .map(({ name, goingBack }) => ({ name, goingBack })),
      excluded: await excludedBy(client, contracts.at(-1)),
      next: next && { name: next.name, contract: next.contract as number },
    }
  })
}

/** What came after it is in no backup that the excluded releases can use. */
async function excludedBy(client: pg.Client, file: MigrationFile | undefined): Promise<RollbackPoint['excluded']> {
  if (!file) return undefined
  const text = `
    SELECT m.applied_at AS "appliedAt",
           (SELECT count(*)::float8 FROM certificates c WHERE c.issued_at >= m.applied_at) AS certificates,
           (SELECT count(*)::float8 FROM certificates c WHERE c.revoked_at >= m.applied_at) AS revocations
      FROM schema_migrations m WHERE m.version = $1`
  type Row = { appliedAt: Date; certificates: number; revocations: number }
  const [row] = (await client.query<Row>(text, [file.version])).rows
  return row && { name: file.name, ...row }
}
