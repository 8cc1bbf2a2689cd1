/**
 * Which instances are running, and who leads: session advisory locks on one connection of their own.
 *
 * A lock goes with its connection, so a killed instance is known to be gone as soon as PostgreSQL notices the closed
 * socket: no heartbeat, no clock. A connection that falls silent is given up at the first statement that is not answered in
 * time. Work left behind is adopted by compare-and-swap, so a wrong guess (the database restarted and nobody holds a lock
 * for a moment) costs a duplicate attempt, never a duplicate result.
 */

import { randomInt } from 'node:crypto'
import { connectionOptions, type DatabaseSettings } from './database.ts'
import pg from './pg.ts'

/** First half of the presence lock's key; the second is the instance id. `live_instances()` in SQL knows it too. */
const PRESENCE_CLASS = 712100

/**
 * Background work of which one instance at a time does a round (712002 is that of expiration warnings). Rounds of one role
 * keep out those of every other task of the role on other instances, so a task whose rounds are long has a role of its own.
 */
const LEADER_LOCKS = { cleanup: 712001, challenge: 712003, retention: 712004, crl: 712948 } as const
export type LeaderRole = keyof typeof LEADER_LOCKS

const RECONNECT_DELAY_MS = 500

const END_FORMER = `
  SELECT pg_terminate_backend(pid) FROM pg_locks
   WHERE locktype = 'advisory' AND classid = $1 AND objid = $2 AND objsubid = 2
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

export interface InstancePresence {
  readonly instanceId: number
  /** Since when others can see that it lives, by `performance.now()`; undefined while they cannot. */
  presentSince(): number | undefined
  /** Ids of all running instances, this one included. */
  liveInstances(): Promise<number[]>
  /** Runs `work` if no other instance does this role's work right now; false when one does. */
  lead(role: LeaderRole, work: () => Promise<void>): Promise<boolean>
  close(): Promise<void>
}

export async function announceInstance(
  settings: DatabaseSettings,
  onLost: (error: Error) => void,
): Promise<InstancePresence> {
  // Positive and 31 bits: both halves of an advisory key are signed, pg_locks shows them unsigned.
  const instanceId = randomInt(1, 2 ** 31 - 1)
  let closed = false
  /** While no connection holds the lock: before the first, and from a loss to the next. */
  let down = true
  let client = await connect(false)
  down = false
  let since = performance.now()

  async function connect(isAgain: boolean): Promise<pg.Client> {
    const next = new pg.Client({ ...connectionOptions(settings), keepAlive: true })
    next.on('error', (error) => lose(next, error))
    try {
      await next.connect()
      // A former connection that fell silent may live on at the server for hours, and with it its locks.
      if (isAgain) await next.query(END_FORMER, [PRESENCE_CLASS, instanceId])
      await next.query('SELECT pg_advisory_lock($1, $2)', [PRESENCE_CLASS, instanceId])
      return next
    } catch (error) {
      await next.end().catch(() => undefined) // the first error says what was wrong
      throw error
    }
  }

  function lose(lost: pg.Client, error: Error): void {
    if (closed || down || lost !== client) return
    down = true
    onLost(error)
    // With a statement under way, as after a time-out, pg destroys the socket and waits for no answer.
    void lost.end()
    void reconnect()
  }

  /** One statement at a time: the roles share the connection, and pg will not queue for them any more (a warning in pg 8). */
  let last: Promise<unknown> = Promise.resolve()
  function query<R extends pg.QueryResultRow>(holder: pg.Client, text: string, values: unknown[] = []): Promise<R[]> {
    const rows = last.then(async () => (await holder.query<R>(text, values)).rows)
    // Its own caller gets the error; the next statement only waits. What the server did not say is the connection's, and a
    // network that drops packets says nothing else.
    last = rows.catch((error) => {
      if (!(error instanceof pg.DatabaseError)) lose(holder, error)
    })
    return rows
  }

  async function reconnect(): Promise<void> {
    while (!closed) {
      await new Promise((resolve) => setTimeout(resolve, RECONNECT_DELAY_MS))
      try {
        const next = await connect(true)
        if (closed) return await next.end()
        client = next
        down = false
        since = performance.now()
        return
      } catch (error) {
        onLost(error as Error)
      }
    }
  }

  return {
    instanceId,
    presentSince: () => (down ? undefined : since),
    async liveInstances() {
      const rows = await query<{ id: number }>(client, 'SELECT id FROM live_instances() AS id ORDER BY id')
      return rows.map((row) => row.id)
    },
    async lead(role, work) {
      const holder = client
      const lock = [LEADER_LOCKS[role]]
      const rows = await query<{ mine: boolean }>(holder, 'SELECT pg_try_advisory_lock($1) AS mine', lock)
      if (!rows[0]?.mine) return false
      try {
        await work()
      } finally {
        // A connection that was lost has released the lock already.
        if (holder === client && !down) await query(holder, 'SELECT pg_advisory_unlock($1)', lock)
      }
      return true
    },
    async close() {
      closed = true
      await client.end()
    },
  }
}
