/**
 * Which instances run, and which leads: session advisory locks on a connection of their own.
 *
 * A lock ends with its connection, so PostgreSQL frees a killed instance's lock with its closed
 * socket: no heartbeat, no clock. A silent connection is given up at its first statement that times
 * out. Work left behind is adopted by compare-and-swap. So a wrong guess, as after a restart of the
 * database, costs a duplicate attempt, never a duplicate result.
 */

import { randomInt } from 'node:crypto'
import { connectionOptions, type DatabaseSettings } from './database.ts'
import pg from './pg.ts'

/**
 * First half of the presence lock's key; the instance id is the second. `live_instances()` in SQL
 * uses it too.
 */
const PRESENCE_CLASS = 712100

/**
 * Background work that one instance at a time does (712002 is that of expiration warnings). Tasks
 * of one role exclude each other across instances, so a task with long rounds has its own role.
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
  /**
   * Since when other instances see this one, by `performance.now()`; undefined while they do not.
   */
  presentSince(): number | undefined
  /** Ids of all running instances, this one included. */
  liveInstances(): Promise<number[]>
  /** Runs `work` unless another instance is doing this role's work; then returns false. */
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
      // A silent former connection may live for hours at the server, and keep its locks.
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
    // With a statement under way, as after a time-out, pg destroys the socket without waiting for a
    // reply.
    void lost.end()
    void reconnect()
  }

  /**
   * One statement at a time: the roles share the connection, and queueing in pg is deprecated since
   * pg 8.
   */
  let last: Promise<unknown> = Promise.resolve()
  function query<R extends pg.QueryResultRow>(holder: pg.Client, text: string, values: unknown[] = []): Promise<R[]> {
    const rows = last.then(async () => (await holder.query<R>(text, values)).rows)
    // The caller gets the error; the next statement only waits. An error without a server code
    // means that the connection is lost.
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
        // A lost connection has released the lock already.
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
