/** Applies the missing migrations in order, while the service runs. One migrator works at a time. */

import { setTimeout as sleep } from 'node:timers/promises'
import type pg from '../pg.ts'
import type { DatabaseSettings } from '../session.ts'
import { applyMigration } from './apply-migration.ts'
import { fourDigits, MIGRATIONS_DIR, type Migration, readMigration, schemaOfRelease } from './migration-files.ts'
import { newerSchema, runningInstances, schemaStateOf, withSchemaSession } from './schema-state.ts'
import type { MigrationSession, Report } from './waiting.ts'

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
