/** SQL of the slow clock, and of times that were written while a clock was ahead (docs/decisions/clocks.md). */

import type { Database, Statement } from './database.ts'

export interface ClockStore {
  /**
   * Moves the slow clock towards now(), by at most twice what has passed since the call before, less what other instances
   * have moved it since. @returns by how many seconds it is behind now()
   */
  advance(elapsedSeconds: number): Promise<number>
  /** Makes due what waits longer than its kind can. @returns how many rows */
  endLongWaits(): Promise<number>
}

const SLOW_NOW: Statement = { name: 'slow-now', text: 'SELECT slow_now() AS now' }

/** What is deleted for good by its age is compared with this time. */
export async function slowNow(db: Pick<Database, 'query'>): Promise<Date> {
  const [row] = await db.query<{ now: Date }>(SLOW_NOW, [])
  return (row as { now: Date }).now
}

const ADVANCE: Statement = {
  name: 'slow-clock-advance',
  // $2 is where the clock stood after this instance's last round: all instances together move it by twice the time.
  text: `
    INSERT INTO slow_clock AS c (at) VALUES (now())
    ON CONFLICT (one) DO UPDATE
      SET at = c.at + make_interval(secs => (
        SELECT greatest(-most, least(most, extract(epoch FROM now() - c.at)::float8))
          FROM (SELECT greatest(0, 2 * $1::float8 - coalesce(abs(extract(epoch FROM c.at)::float8 - $2::float8), 0)) AS most) b))
    RETURNING extract(epoch FROM now() - at)::float8 AS behind, extract(epoch FROM at)::float8 AS at`,
}

const HOUR = 3_600
const DAY = 24 * HOUR

/** A time until which a row waits or belongs to an instance, and how many seconds it can lie ahead at most. */
const LONGEST: readonly (readonly [table: string, column: string, seconds: number, among?: string])[] = [
  ['event_deliveries', 'due_at', DAY, 'attempts > 0'],
  ['csr_issuances', 'due_at', DAY],
  ['backend_revocations', 'due_at', DAY],
  ['upstream_renewals', 'due_at', 7 * DAY],
  ['authorizations', 'validating_since', HOUR, 'validating_by IS NOT NULL'],
  ['issuance_intents', 'created_at', HOUR],
  ['bulk_revocations', 'progressed_at', HOUR, 'finished_at IS NULL'],
  ['audit_verifications', 'progressed_at', HOUR, 'finished_at IS NULL'],
  ['cleanup_progress', 'finished_at', HOUR],
  ['server_settings', 'updated_at', HOUR, "key = 'crl_rebuild'"],
  ['admin_login_limits', 'window_began_at', HOUR],
  ['admin_login_limits', 'locked_until', HOUR],
  // `admin_api.token_expiry_seconds` is an hour at most; the clocks of service and database may differ.
  ['admin_sessions', 'expires_at', 2 * HOUR],
]

const END_LONG_WAITS: Statement[] = LONGEST.map(([table, column, seconds, among = 'true']) => ({
  name: `clock-${table}-${column}`,
  text: `UPDATE ${table} SET ${column} = now() WHERE ${column} > now() + interval '${seconds} s' AND ${among} RETURNING 1`,
}))

export function createClockStore(db: Pick<Database, 'query'>): ClockStore {
  let seenAt: number | undefined
  return {
    async advance(elapsedSeconds) {
      const [row] = await db.query<{ behind: number; at: number }>(ADVANCE, [elapsedSeconds, seenAt ?? null])
      const { behind, at } = row as { behind: number; at: number }
      seenAt = at
      return behind
    },
    async endLongWaits() {
      let ended = 0
      for (const statement of END_LONG_WAITS) ended += (await db.query(statement, [])).length
      return ended
    },
  }
}
