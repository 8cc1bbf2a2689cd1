/**
 * Which database a session has begun in. A promoted standby, a restored backup and a copy each count as another database. Nobody
 * works in one before it was compared with what was decided (docs/decisions/decisions-outlive-the-database.md).
 */

import type { Statement } from './pipeline.ts'

interface Queries {
  query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]>
}

/**
 * System identifier, timeline, oid of the database, and oid of a table, which `pg_restore --clean` makes anew. No two
 * databases of a signer have the same.
 */
const INCARNATION = `(SELECT system_identifier FROM pg_control_system()) || '/' ||
         left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || '/' ||
         (SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || 'database_identity'::regclass::oid`

const READ: Statement = {
  name: 'incarnation-read',
  text: `SELECT ${INCARNATION} AS incarnation, compared, former, pg_last_xact_replay_timestamp() AS since,
                 pg_postmaster_start_time()::text AS server FROM database_identity`,
}

export interface Incarnation {
  incarnation: string
  /** The one that was compared last; null before the first comparison. */
  compared: string | null
  /** These were compared before it. */
  former: readonly string[]
  /** Time of the last commit that a promoted standby has; null in other databases. */
  since: Date | null
  /** When it was started. */
  server: string
}

export async function readIncarnation(db: Queries): Promise<Incarnation> {
  const [row] = await db.query<Incarnation>(READ, [])
  if (!row) throw new Error('the database has lost its identity (table database_identity)')
  return row
}

/** For a statement that works in this database alone. */
export const IN_INCARNATION = (parameter: number) => `${INCARNATION} = $${parameter}`

/** Nobody has compared this database yet. Callers take it for a database that is away. */
class NotCompared extends Error {
  /** cannot_connect_now */
  readonly code = '57P03'

  constructor(host: string) {
    super(
      `the database at ${host} went back to an earlier time or is another one, and was not compared with what was decided since; a running service does so, or: chancery reconcile`,
    )
    this.name = 'NotCompared'
  }
}

/** Whether the database is older than migration 0033 and records nothing (SQLSTATE undefined_table). */
export function hasNoIdentity(error: unknown): boolean {
  if ((error as { code?: unknown } | null)?.code === '42P01') return true
  return error instanceof Error && error.cause !== undefined && hasNoIdentity(error.cause)
}

/** @throws NotCompared */
export async function requireCompared(
  client: { query(text: string): Promise<{ rows: Record<string, unknown>[] }> },
  host: string,
): Promise<void> {
  // Before the first comparison nothing was decided that could be lost.
  const { rows } = await client.query(`SELECT coalesce(compared = ${INCARNATION}, true) AS ok FROM database_identity`)
  if (rows[0]?.['ok'] !== true) throw new NotCompared(host)
}
