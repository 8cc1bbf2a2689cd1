/**
 * Which instances run, and which leads: session advisory locks on a connection of their own.
 *
 * A lock ends with its connection, so PostgreSQL frees a killed instance's lock with its closed socket: no heartbeat, no clock.
 * A silent connection is given up when a statement times out, or when another server takes writes. Work left behind is adopted
 * by compare-and-swap, so a wrong guess costs a duplicate attempt, never a duplicate result.
 */

import { randomInt } from 'node:crypto'
import type { Database, DatabaseSettings } from './database.ts'
import type pg from './pg.ts'
import { cutOff } from './pg.ts'
import { schemaOfRelease } from './schema/migration-files.ts'
import { PRESENCE_CLASS, RELEASE_CLASS } from './schema/schema-state.ts'
import { openPrimary } from './session.ts'
import { type Session, Sessions } from './sessions.ts'
import { endsSession } from './sqlstate.ts'

/**
 * Background work that one instance at a time does. Tasks of one role exclude each other across instances, so a task with
 * long rounds has its own role.
 */
const LEADER_LOCKS = {
  cleanup: 712001,
  expiration: 712002,
  challenge: 712003,
  retention: 712004,
  audit: 712005,
  backends: 712006,
  test_sign: 712007,
  archive: 712008,
  crl: 712948,
} as const
export type LeaderRole = keyof typeof LEADER_LOCKS

const RECONNECT_DELAY_MS = 500

const END_FORMER = `
  SELECT pg_terminate_backend(pid) FROM pg_locks
   WHERE locktype = 'advisory' AND classid = $1 AND objid = $2 AND objsubid = 2
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

export interface InstancePresence {
  readonly instanceId: number
  /** Since when other instances see this one, by `performance.now()`; undefined while they do not. */
  presentSince(): number | undefined
  /** Ids of all running instances, this one included. */
  liveInstances(): Promise<number[]>
  /** Runs `work` unless another instance is doing this role's work; then returns false. */
  lead(role: LeaderRole, work: () => Promise<void>): Promise<boolean>
  close(): Promise<void>
}

export async function isAnyInstanceAlive(db: Pick<Database, 'query'>): Promise<boolean> {
  const statement = { name: 'instance-alive', text: 'SELECT id FROM live_instances() AS id LIMIT 1' }
  return (await db.query(statement, [])).length > 0
}

export async function announceInstance(
  settings: DatabaseSettings,
  onLost: (error: Error) => void,
): Promise<InstancePresence> {
  const connection = new PresenceConnection(settings, onLost)
  await connection.open()
  return {
    instanceId: connection.instanceId,
    presentSince: () => connection.presentSince,
    async liveInstances() {
      const text = 'SELECT id FROM live_instances() AS id ORDER BY id'
      const rows = await connection.query<{ id: number }>(connection.client, text)
      return rows.map((row) => row.id)
    },
    async lead(role, work) {
      const holder = connection.client
      const lock = [LEADER_LOCKS[role]]
      const rows = await connection.query<{ mine: boolean }>(holder, 'SELECT pg_try_advisory_lock($1) AS mine', lock)
      if (!rows[0]?.mine) return false
      try {
        await work()
      } finally {
        // A lost connection has released the lock already.
        if (connection.isUp(holder)) await connection.query(holder, 'SELECT pg_advisory_unlock($1)', lock)
      }
      return true
    },
    close: () => connection.close(),
  }
}

interface Opened {
  client: pg.Client
  session: Session
}

/** The connection that holds the presence lock. It is replaced when it is lost. */
class PresenceConnection {
  /** 31 bits: both halves of an advisory key are signed, and pg_locks shows them unsigned. */
  readonly instanceId = randomInt(1, 2 ** 31 - 1)
  readonly #settings: DatabaseSettings
  readonly #onLost: (error: Error) => void
  readonly #sessions: Sessions
  #session: Session | undefined
  #client: pg.Client | undefined
  #closed = false
  /** Undefined while no connection holds the lock: before the first, and after a loss. */
  #since: number | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(settings: DatabaseSettings, onLost: (error: Error) => void) {
    this.#settings = settings
    this.#sessions = new Sessions(settings)
    this.#onLost = onLost
  }

  /** Called once, before everything else. @throws connection errors */
  async open(): Promise<void> {
    this.#adopt(await this.#connect(false))
  }

  /** The newest connection, which may be lost. */
  get client(): pg.Client {
    if (!this.#client) throw new Error('the presence connection has not been opened')
    return this.#client
  }

  get presentSince(): number | undefined {
    return this.#since
  }

  isUp(holder: pg.Client): boolean {
    return holder === this.#client && this.#since !== undefined
  }

  /** One statement at a time: the roles share the connection, and queueing in pg is deprecated since pg 8. */
  query<R extends pg.QueryResultRow>(holder: pg.Client, text: string, values: unknown[] = []): Promise<R[]> {
    const rows = this.#last.then(() => this.#run<R>(holder, text, values))
    // The caller gets the error; the next statement only waits.
    this.#last = rows.catch((error) => {
      if (endsSession(error)) this.#lose(holder, error)
    })
    return rows
  }

  async #run<R extends pg.QueryResultRow>(holder: pg.Client, text: string, values: unknown[]): Promise<R[]> {
    const session = this.isUp(holder) ? this.#session : undefined
    session?.busy()
    try {
      return (await holder.query<R>(text, values)).rows
    } finally {
      session?.idle()
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#client?.end()
  }

  #adopt({ client, session }: Opened): void {
    session.idle()
    this.#client = client
    this.#session = session
    this.#since = performance.now()
  }

  async #connect(isAgain: boolean): Promise<Opened> {
    const { client: next, host, server } = await openPrimary(this.#settings)
    const session = this.#sessions.open(host, () => cutOff(next))
    this.#sessions.begun(session, server)
    session.busy()
    next.once('end', () => this.#sessions.closed(session))
    next.on('error', (error) => this.#lose(next, error))
    try {
      // A silent former connection may live for hours at the server, and keep its locks.
      if (isAgain) await next.query(END_FORMER, [PRESENCE_CLASS, this.instanceId])
      await next.query('SELECT pg_advisory_lock_shared($1, $2)', [RELEASE_CLASS, await schemaOfRelease()])
      await next.query('SELECT pg_advisory_lock($1, $2)', [PRESENCE_CLASS, this.instanceId])
      return { client: next, session }
    } catch (error) {
      await next.end().catch(() => undefined) // the first error says what was wrong
      throw error
    }
  }

  #lose(lost: pg.Client, error: Error): void {
    if (this.#closed || !this.isUp(lost)) return
    this.#since = undefined
    this.#onLost(error)
    // While a statement is under way, as after a time-out, pg destroys the socket without waiting for a reply.
    void lost.end()
    void this.#reconnect()
  }

  async #reconnect(): Promise<void> {
    while (!this.#closed) {
      await new Promise((resolve) => setTimeout(resolve, RECONNECT_DELAY_MS))
      try {
        const next = await this.#connect(true)
        if (this.#closed) return await next.client.end()
        return this.#adopt(next)
      } catch (error) {
        this.#onLost(error as Error)
      }
    }
  }
}
