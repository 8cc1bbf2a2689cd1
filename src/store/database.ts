/**
 * PostgreSQL for the ACME path: a small pool of `pg` connections, named prepared statements, batches.
 *
 * Uses `pg` because an indexed read costs 100 µs of client CPU; through slonik it costs 260 µs.
 */

import { type Batched, Batcher, type CommandTraits } from '../shared/lib/batcher.ts'
import { requireCompared } from './incarnation.ts'
import pg, { cutOff, forgetStatements } from './pg.ts'
import { createPipeline, type Pipeline, type Statement } from './pipeline.ts'
import {
  beginSession,
  connectionOptions,
  type DatabaseSettings,
  NoSession,
  type SessionSettings,
  timeLimits,
} from './session.ts'
import { type Session, Sessions } from './sessions.ts'
import { diskTroubleOf, endsSession, isPassingState, isStalePlan, isWorthRepeating, repeated } from './sqlstate.ts'

export type { DatabaseSettings, Statement }

export interface PoolNumbers {
  /** Most connections that the pool may have. */
  max: number
  /** Open connections. */
  size: number
  /** Open connections that could take a statement now. */
  available: number
  /** Statements that wait for a connection. */
  waiting: number
}

export interface Database {
  /** One statement, which is one transaction. @throws pg.DatabaseError and connection errors */
  query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]>
  /** For the statements of batches (pipeline.ts). */
  pipeline: Pipeline
  /** Runs statements in one transaction on one connection. `run` must not make other network calls. */
  transaction<T>(run: (tx: Pick<Database, 'query'>) => Promise<T>): Promise<T>
  /**
   * The pool as the pressure guard sees it: a connection that is not stuck counts as
   * available. At full load every connection is busy for milliseconds, which is no trouble.
   */
  pressure(): PoolNumbers
  close(): Promise<void>
}

const WRITE: Statement = {
  name: 'takes-writes',
  // On a standby or in a read-only session an UPDATE of no row fails, too. The message makes a commit
  // that waits for the disk, and for the replicas that the operator asks for.
  text: `
    WITH nothing AS (UPDATE server_settings SET value = value WHERE false)
    SELECT pg_logical_emit_message(true, 'chancery', '') IS NOT NULL AS is_written`,
}

/** Asks whether the database takes writes. @throws its error, or connection errors */
export async function requireWrites(db: Pick<Database, 'query'>): Promise<void> {
  await db.query(WRITE, [])
}

const ROOM: Statement = {
  name: 'has-room',
  // A table of its own takes new pages of the disk, which a message or an update in place does not.
  text: "CREATE TEMPORARY TABLE room ON COMMIT DROP AS SELECT repeat('x', 1000) FROM generate_series(1, 1000)",
}

/** Asks whether a megabyte can be written. @throws as above */
export async function requireRoom(db: Pick<Database, 'query'>): Promise<void> {
  await db.query(ROOM, [])
}

/**
 * A plan made on empty tables keeps scanning them: with 20,000 orders it took half of PostgreSQL's
 * CPU. Generic plans avoid planning at every execution, which costs several times the execution.
 */
const KEYED_PLANS: SessionSettings = {
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  plan_cache_mode: 'force_generic_plan',
}

/** pg's message when all connections stay in use. */
const IS_POOL_FULL = /^timeout exceeded when trying to connect$/

const IS_NETWORK_FAULT = /^(?:ECONN|ENOENT|EPIPE|ETIMEDOUT|EHOST|ENET)/

/** A query is sent without waiting for the answer to the one before. */
const PIPELINED: object = { pipeline: true }

/** Values are parsed as by pg; rows contain no bigint. */
export function openDatabase(settings: DatabaseSettings, onError: (error: Error) => void): Database {
  const sessions = new Sessions(settings)
  const { hosts } = sessions
  const sessionOf = new WeakMap<object, Session>()
  const pool = new pg.Pool({
    Client: clientsOn(sessions, sessionOf, settings),
    connectionTimeoutMillis: settings.connectionTimeoutMs,
    ...PIPELINED,
    async onConnect(client) {
      const session = sessionOf.get(client) as Session
      const options = { ...KEYED_PLANS, ...timeLimits(settings.statementTimeoutMs) }
      const server = await beginSession(client, session.host, options)
      if (settings.requireCompared?.()) await requireCompared(client, session.host)
      sessions.begun(session, server)
    },
    max: settings.maxConnections,
    min: Math.min(settings.minConnections ?? 0, settings.maxConnections),
    idleTimeoutMillis: settings.idleTimeoutMs,
    keepAlive: true,
  })
  // Without a listener, an idle connection that breaks would end the process; the next query
  // replaces it. `end` does not wait for the sockets, so a stopping server may still break them.
  pool.on('error', (error) => {
    if (!pool.ending) onError(error)
  })
  pool.on('acquire', (client) => sessionOf.get(client)?.busy())
  pool.on('release', (_error, client) => sessionOf.get(client)?.idle())

  const connect = () =>
    hosts.find((host) =>
      pool.connect().catch((error: Error) => {
        if (!IS_POOL_FULL.test(error.message)) hosts.leave(host)
        throw error
      }),
    )
  const pipeline = createPipeline({ connect, waiting: () => pool.waitingCount }, settings.maxConnections, (client) =>
    sessionOf.get(client)?.busy(),
  )

  async function withClient<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await connect()
    // A broken connection already fails the running statement. Without a listener, its error event
    // would end the process.
    const ignore = () => undefined
    client.on('error', ignore)
    let isBroken = false
    try {
      return await work(client)
    } catch (error) {
      isBroken = isStalePlan(error) ? !(await forgetStatements(client)) : endsSession(error)
      throw error
    } finally {
      client.off('error', ignore)
      client.release(isBroken)
    }
  }

  function pressure(): PoolNumbers {
    const { totalCount: size } = pool
    const waiting = pool.waitingCount + pipeline.waiting()
    return { max: settings.maxConnections, size, available: Math.max(0, size - sessions.stuck()), waiting }
  }

  return {
    query: (statement, values) => repeated(() => withClient((client) => rowsOf(client, statement, values))),
    pipeline,
    transaction: (run) => repeated(() => withClient((client) => inTransaction(client, run))),
    pressure,
    close: () => pool.end(),
  }
}

/** pg makes the clients of its pool; each asks for the host when it is made. */
function clientsOn(sessions: Sessions, sessionOf: WeakMap<object, Session>, settings: DatabaseSettings) {
  return class extends pg.Client {
    constructor(options?: pg.ClientConfig) {
      const host = sessions.hosts.current
      super({ ...options, ...connectionOptions(settings, host) })
      const session = sessions.open(host, () => cutOff(this))
      sessionOf.set(this, session)
      this.once('end', () => sessions.closed(session))
    }
  }
}

async function rowsOf<Row>(
  client: pg.PoolClient,
  { name, text }: Statement,
  values: readonly unknown[],
): Promise<Row[]> {
  return (await client.query({ name, text, values: [...values] })).rows as Row[]
}

async function inTransaction<T>(client: pg.PoolClient, run: (tx: Pick<Database, 'query'>) => Promise<T>): Promise<T> {
  try {
    await client.query('BEGIN')
    const result = await run({ query: (statement, values) => rowsOf(client, statement, values) })
    await client.query('COMMIT')
    return result
  } catch (error) {
    // A session that has ended is rolled back by the server.
    if (!endsSession(error)) await client.query('ROLLBACK')
    throw error
  }
}

/**
 * Whether the commands of a failed batch may succeed one by one. SQLSTATE classes 22 and 23 refuse
 * a value of one command; a deadlock was lost to another batch.
 */
export function isWorthSplitting(error: unknown): boolean {
  if (isWorthRepeating(error)) return true
  return error instanceof pg.DatabaseError && /^(?:22|23)/.test(error.code ?? '')
}

/**
 * Whether the database is unreachable, takes no writes, is shutting down or too slow: 503 with Retry-After, not 500.
 */
export function isUnavailable(error: unknown): boolean {
  if (error instanceof NoSession) return true
  if (diskTroubleOf(error)) return true
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code === 'string' && (isPassingState(code) || IS_NETWORK_FAULT.test(code))) return true
  return (
    error instanceof Error &&
    /Connection terminated|timeout exceeded when trying to connect|timeout expired|not queryable|Client was closed|Query read timeout/.test(
      error.message,
    )
  )
}

/** Bounds one statement to a few milliseconds; 128 keeps arrays small and commits rare. */
const MAX_BATCH = 128
/** Waiting commands of one kind: a fifth of a second of work at 10,000 commands a second. */
const MAX_WAITING = 2048
/**
 * Commands of one row, which run one after the other: enough for all that one client sends at once,
 * so that each gets the final answer. Without a bound, 1,150 finalizes a second of one order filled
 * `MAX_WAITING`, and every account was refused.
 */
export const MAX_OF_KEY = 32
/** Flushes of one kind at once; the pipeline starts a second one only while connections are slow. */
const MAX_CONCURRENT = 8

/** Hundreds of times what a batch takes, and less than clients wait. */
const MAX_STANDSTILL_MS = 5_000

/**
 * Joins concurrent commands of one kind into one statement. `flush` runs one statement, so nothing
 * is done when it throws, and returns one result a command, in order.
 * @param traits `keyOf` serialises commands for one row: PostgreSQL applies only one of several
 *   source rows that join the same target row
 */
export function batched<C, R>(
  { pipeline }: Pick<Database, 'pipeline'>,
  flush: (commands: readonly C[]) => Promise<readonly R[]>,
  traits: CommandTraits<C> & { maxConcurrent?: number } = {},
): Batched<C, R> {
  const options = {
    maxBatch: MAX_BATCH,
    maxConcurrent: MAX_CONCURRENT,
    whenFree: pipeline.whenFree,
    maxWaiting: MAX_WAITING,
    maxOfKey: MAX_OF_KEY,
    maxStandstillMs: MAX_STANDSTILL_MS,
    retryable: isWorthSplitting,
  }
  const batcher = new Batcher(flush, { ...options, ...traits })
  return (command) => batcher.run(command)
}

const SILENCE: Statement = { name: 'import-silence', text: "SELECT set_config('chancery.import', 'on', true)" }

/** Until the transaction ends, no change of rows becomes an event. */
export async function silenceEvents(tx: Pick<Database, 'query'>): Promise<void> {
  await tx.query(SILENCE, [])
}
