/**
 * Applies the missing migrations in order, while the service runs. One migrator works at a time.
 *
 * A lock that waits lets nobody else pass, so no lock is waited for longer than a second: the transaction is rolled back,
 * the clients get their turn, and it is tried again.
 *
 * Statements of a `-- concurrently` file run each alone. They exclude no reader or writer, also while they wait, and may wait for
 * as long as it takes. An interruption leaves the statements before it done, and perhaps an invalid index; a repeat continues there.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type pg from '../pg.ts'
import type { DatabaseSettings } from '../session.ts'
import { isWorthRepeating } from '../sqlstate.ts'
import {
  fourDigits,
  MIGRATIONS_DIR,
  type Migration,
  type MigrationFile,
  readMigration,
  schemaOfRelease,
  statementsIn,
} from './migration-files.ts'
import { newerSchema, recordApplied, runningInstances, schemaStateOf, withSchemaSession } from './schema-state.ts'
import { describeHolders, type Holder, type MigrationSession, type Report, watched } from './waiting.ts'

/** Lets one migrator run at a time. */
const MIGRATION_LOCK = 712000

export interface MigrateOptions {
  folder?: string
  /** How long each migration may try to get its locks. */
  maxWaitMs?: number
  report?: Report
}

const MAX_WAIT_MS = 600_000

/**
 * Applies the missing migrations.
 * @returns the migrations this call applied, in order
 * @throws SchemaMismatch when a newer release has migrated the database, and this release cannot use that
 */
export async function migrate(settings: DatabaseSettings, options: MigrateOptions = {}): Promise<Migration[]> {
  const { folder = MIGRATIONS_DIR, maxWaitMs = MAX_WAIT_MS, report = () => undefined } = options
  return withSchemaSession(settings, async (client) => {
    await awaitTurn(client, report)
    const { pending, unknown, oldestRelease, isUsable } = await schemaStateOf(client, folder)
    if (isUsable) return []
    if (unknown.length > 0) throw newerSchema(unknown, oldestRelease, await schemaOfRelease(folder))
    await client.query(TABLE)
    await withSchemaSession(settings, async (beside) => {
      const pid = (await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]?.pid as number
      const session: MigrationSession = { client, beside, pid, maxWaitMs, report }
      for (const migration of pending) {
        const file = await readMigration(folder, migration)
        if (file.contract !== undefined) await requireReleases(client, file.name, file.contract)
        await applyMigration(session, file)
      }
    })
    return pending
  })
}

/** @throws Error while an instance runs that the migration excludes */
async function requireReleases(client: pg.Client, name: string, oldest: number): Promise<void> {
  const excluded = (await runningInstances(client)).filter(({ release }) => release < oldest)
  if (excluded.length === 0) return
  const instances = excluded.map(({ id, release }) => `${id} (release ${fourDigits(release)})`).join(', ')
  throw new Error(
    `migration ${name} is for releases from ${fourDigits(oldest)} on, and instance ${instances} still runs; replace it, then run "db migrate" again`,
  )
}

const TABLE = `
  CREATE TABLE IF NOT EXISTS schema_migrations (
    version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`

const POLL_MS = 300

/** A statement that waits would have a snapshot, and CREATE INDEX CONCURRENTLY of the other migrator waits for those. */
async function awaitTurn(client: pg.Client, report: Report): Promise<void> {
  for (;;) {
    const text = 'SELECT pg_try_advisory_lock($1) AS mine'
    if ((await client.query<{ mine: boolean }>(text, [MIGRATION_LOCK])).rows[0]?.mine) return
    report('another migrator is at work on this database; waiting for it', true)
    await sleep(POLL_MS)
  }
}

/** The service refuses requests once connections are busy for a second (STUCK_MS in database.ts). */
const LOCK_TIMEOUT_MS = 800
/** Autovacuum gives way after `deadlock_timeout`, a second. Its processes have no application name. */
const AUTOVACUUM_TIMEOUT_MS = 2_000
const LOCK_NOT_AVAILABLE = '55P03'

/** Long enough for what has queued to get through, and different each time: the holder may have a rhythm. */
const pauseMs = () => 1_000 + Math.random() * 2_000

/** @throws Error that names the file */
async function applyMigration(session: MigrationSession, file: MigrationFile): Promise<void> {
  const startedAt = performance.now()
  session.report(`${file.name}: begun`, true)
  try {
    if (file.isConcurrent) await runConcurrently(session, file)
    await untilGranted(session, file)
  } catch (cause) {
    throw new Error(`migration ${file.name} failed: ${(cause as Error).message}`, { cause })
  }
  session.report(`applied ${file.name} in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`, false)
}

/**
 * Repeats the transaction while it does not get its locks, for at most `maxWaitMs`.
 * @throws its error; after the last attempt one that says who has the lock
 */
async function untilGranted(session: MigrationSession, file: MigrationFile): Promise<void> {
  const deadline = performance.now() + session.maxWaitMs
  let holders: readonly Holder[] = []
  for (;;) {
    const isAutovacuum = holders.some(({ application }) => !application)
    const timeoutMs = isAutovacuum ? AUTOVACUUM_TIMEOUT_MS : LOCK_TIMEOUT_MS
    holders = []
    try {
      return await inTransaction(session, file, timeoutMs, (now) => {
        if (now.length > 0) holders = now
      })
    } catch (error) {
      const isLocked = (error as { code?: unknown }).code === LOCK_NOT_AVAILABLE
      if (!isLocked && !isWorthRepeating(error)) throw error
      const reason = holders.length === 0 ? (error as Error).message : `locked by ${describeHolders(holders)}`
      if (performance.now() > deadline)
        throw new Error(
          `${reason}; nothing of it was done within ${session.maxWaitMs / 1000} s; run it again later, or with a longer --wait`,
          { cause: error },
        )
      session.report(`${file.name}: ${reason}; trying again`, true)
      await sleep(pauseMs())
    }
  }
}

/** A concurrent file has run already: only its row is left to be written. */
async function inTransaction(
  session: MigrationSession,
  file: MigrationFile,
  lockTimeoutMs: number,
  onWait: (holders: readonly Holder[]) => void,
): Promise<void> {
  const { client } = session
  await client.query('BEGIN')
  try {
    await client.query(`SET LOCAL lock_timeout = ${lockTimeoutMs}`)
    await recordApplied(client, file)
    if (!file.isConcurrent) await watched(session, file.sql, onWait)
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  }
}

const INDEX_BUILD = /^CREATE (?:UNIQUE )?INDEX CONCURRENTLY (?:IF NOT EXISTS )?(\w+) ON /i
const REPEATABLE = /^(?:DROP INDEX CONCURRENTLY IF EXISTS|ALTER TABLE (?:ONLY )?\w+ VALIDATE CONSTRAINT|ALTER INDEX) /i

async function runConcurrently(session: MigrationSession, file: MigrationFile): Promise<void> {
  const statements = statementsIn(file.sql)
  const unsafe = statements.find((statement) => !INDEX_BUILD.test(statement) && !REPEATABLE.test(statement))
  if (unsafe !== undefined) throw new Error(`a concurrent migration cannot repeat this statement: ${unsafe}`)
  for (const statement of statements) {
    const index = INDEX_BUILD.exec(statement)?.[1]
    await (index === undefined
      ? runShown(session, file.name, statement)
      : buildIndex(session, `${file.name}: ${index}`, index, statement))
  }
}

async function buildIndex(session: MigrationSession, what: string, index: string, statement: string): Promise<void> {
  const isValid = await findIndex(session, index)
  if (isValid) return
  if (isValid === false) await dropIndex(session, index)
  try {
    await runShown(session, what, statement)
  } catch (error) {
    // It would cost every insert, and a unique one would refuse rows.
    if ((await findIndex(session, index)) === false) await dropIndex(session, index)
    throw error
  }
}

/** @returns whether the index is valid; undefined when there is none */
async function findIndex({ client }: MigrationSession, index: string): Promise<boolean | undefined> {
  const text = 'SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = to_regclass($1)'
  return (await client.query<{ valid: boolean }>(text, [index])).rows[0]?.valid
}

const dropIndex = (session: MigrationSession, index: string) =>
  runShown(session, `${index}, which an interruption has left`, `DROP INDEX CONCURRENTLY ${index}`)

function runShown(session: MigrationSession, what: string, statement: string): Promise<void> {
  return watched(session, statement, (holders, progress) => {
    const said = [progress, holders.length > 0 && `waits for ${describeHolders(holders)}`].filter(Boolean).join(', ')
    if (said !== '') session.report(`${what}: ${said}`, true)
  })
}
