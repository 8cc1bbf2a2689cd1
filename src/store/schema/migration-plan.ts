/** Says what `db migrate` would do here: which tables it would lock, how large they are, and about how long it would take. */

import type pg from '../pg.ts'
import type { DatabaseSettings } from '../session.ts'
import type { LockMode } from './migration-effects.ts'
import { type Effect, effectsOf } from './migration-effects.ts'
import { MIGRATIONS_DIR, readMigration } from './migration-files.ts'
import { schemaStateOf, withSchemaSession } from './schema-state.ts'

export interface PlannedStep {
  statement: string
  /** Undefined where no table is locked that is there already. */
  table: string | undefined
  lock: LockMode | undefined
  /** Who waits for the lock, once it is granted. */
  keepsWaiting: 'nobody' | 'writers' | 'everybody'
  /** For how long; `moment` is milliseconds. */
  lasts: Effect['lasts']
  /** The last ANALYZE has counted them; undefined before it. */
  rows: number | undefined
  /** The size of the table with its large values, without indexes. */
  bytes: number | undefined
  seconds: number | undefined
}

export interface PlannedMigration {
  name: string
  isConcurrent: boolean
  /** The schema of the oldest release that can serve after it, where it excludes some. */
  contract: number | undefined
  steps: PlannedStep[]
}

/** Changes nothing. @throws UnreleasedSchema */
export async function planMigrations(settings: DatabaseSettings, folder = MIGRATIONS_DIR): Promise<PlannedMigration[]> {
  return withSchemaSession(settings, async (client) => {
    const { pending } = await schemaStateOf(client, folder)
    const planned: PlannedMigration[] = []
    for (const migration of pending) {
      const file = await readMigration(folder, migration)
      const steps: PlannedStep[] = []
      for (const effect of effectsOf(file)) steps.push(await plannedStep(client, effect))
      planned.push({ name: file.name, isConcurrent: file.isConcurrent, contract: file.contract, steps })
    }
    return planned
  })
}

const KEEPS_WAITING: Readonly<Record<LockMode, PlannedStep['keepsWaiting']>> = {
  'ACCESS EXCLUSIVE': 'everybody',
  'SHARE ROW EXCLUSIVE': 'writers',
  SHARE: 'writers',
  'SHARE UPDATE EXCLUSIVE': 'nobody',
  'ROW EXCLUSIVE': 'nobody',
}

async function plannedStep(client: pg.Client, { statement, table, lock, lasts }: Effect): Promise<PlannedStep> {
  const size = table === undefined ? undefined : await sizeOf(client, table)
  return {
    statement,
    table: size?.table ?? table,
    lock,
    keepsWaiting: lock ? KEEPS_WAITING[lock] : 'nobody',
    lasts,
    rows: size && size.rows >= 0 ? size.rows : undefined,
    bytes: size?.bytes,
    seconds: size && lasts !== 'moment' ? estimatedSeconds(size, lasts) : undefined,
  }
}

interface Size {
  table: string
  /** Below 0 where nobody has counted. */
  rows: number
  bytes: number
}

/** An index stands for its table. Undefined for a table that an earlier step makes. */
async function sizeOf(client: pg.Client, name: string): Promise<Size | undefined> {
  const text = `
    SELECT c.relname AS table, c.reltuples::float8 AS rows, pg_table_size(c.oid)::float8 AS bytes
      FROM pg_class c
     WHERE c.oid = coalesce((SELECT indrelid FROM pg_index WHERE indexrelid = to_regclass($1)), to_regclass($1))`
  return (await client.query<Size>(text, [name])).rows[0]
}

/** Half of what was measured with a million certificates (test/load/online-migration.ts), on a machine that also serves. */
const BYTES_PER_SECOND = 300e6
const INDEXED_ROWS_PER_SECOND = 400_000

/** CREATE INDEX CONCURRENTLY reads a table twice. A table without statistics counts by its bytes alone. */
function estimatedSeconds({ rows, bytes }: Size, lasts: 'build' | 'scan'): number {
  const reading = bytes / BYTES_PER_SECOND
  return Math.ceil(lasts === 'scan' ? reading : 2 * reading + Math.max(rows, 0) / INDEXED_ROWS_PER_SECOND)
}
