/**
 * PostgreSQL for the ACME path: a small pool of `pg` connections, named prepared statements,
 * batches.
 *
 * Uses `pg` because an indexed read costs 100 µs of client CPU; through slonik it costs 260 µs.
 */

import { type Batched, Batcher, type CommandTraits } from '../shared/lib/batcher.ts'
import { awaitDiskAtCommit } from './durability.ts'
import pg from './pg.ts'
import { type SslMode, tlsOptions } from './pg-tls.ts'
import { createPipeline, type Pipeline, type Statement } from './pipeline.ts'

export type { Statement }

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

export interface DatabaseSettings {
  /** Host name, or a directory with a Unix socket. */
  host: string
  port: number
  database: string
  user: string
  password: string
  /** libpq's words; `allow` means the same as `prefer`. */
  sslmode: SslMode
  maxConnections: number
  /** Idle connections are closed down to this many; none when absent. */
  minConnections?: number
  connectionTimeoutMs: number
  idleTimeoutMs: number
  /** Bound of every statement, at the server and at the client. */
  statementTimeoutMs: number
}

export interface Database {
  /** One statement, which is one transaction. @throws pg.DatabaseError and connection errors */
  query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]>
  /** For the statements of batches (pipeline.ts). */
  pipeline: Pipeline
  /**
   * Runs statements in one transaction on one connection. `run` must not make other network calls.
   */
  transaction<T>(run: (tx: Pick<Database, 'query'>) => Promise<T>): Promise<T>
  /**
   * The pool as the pressure guard sees it: a connection busy for less than `STUCK_MS` counts as
   * available. At full load every connection is busy for milliseconds, which is no trouble.
   */
  pressure(): PoolNumbers
  close(): Promise<void>
}

const PING: Statement = { name: 'ping', text: 'SELECT 1' }

/** Asks the database for an answer. @throws connection errors */
export async function ping(db: Pick<Database, 'query'>): Promise<void> {
  await db.query(PING, [])
}

/**
 * A hundred times what a batch takes. A busy machine or a checkpoint of the database stays below.
 */
const STUCK_MS = 1_000

/**
 * A plan made on empty tables keeps scanning them: with 20,000 orders it took half of PostgreSQL's
 * CPU. Generic plans avoid planning at every execution, which costs several times the execution.
 */
const KEYED_PLANS =
  '-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c plan_cache_mode=force_generic_plan'

/** A query is sent without waiting for the answer to the one before. */
const PIPELINED: object = { pipeline: true }

/** Values are parsed as by pg; rows contain no bigint. */
export function openDatabase(settings: DatabaseSettings, onError: (error: Error) => void): Database {
  const pool = new pg.Pool({
    ...connectionOptions(settings),
    options: KEYED_PLANS,
    ...PIPELINED,
    onConnect: awaitDiskAtCommit,
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
  const busySince = new Map<pg.PoolClient, number>()
  pool.on('acquire', (client) => busySince.set(client, performance.now()))
  pool.on('release', (_error, client) => busySince.delete(client))
  pool.on('remove', (client) => busySince.delete(client))

  const pipeline = createPipeline(pool, settings.maxConnections, (client) => busySince.set(client, performance.now()))

  function pressure(): PoolNumbers {
    const before = performance.now() - STUCK_MS
    let stuck = 0
    for (const since of busySince.values()) if (since < before) stuck++
    const { totalCount: size } = pool
    const waiting = pool.waitingCount + pipeline.waiting()
    return { max: settings.maxConnections, size, available: Math.max(0, size - stuck), waiting }
  }

  return {
    async query<Row>(statement: Statement, values: readonly unknown[]) {
      const result = await pool.query({ name: statement.name, text: statement.text, values: values as unknown[] })
      return result.rows as Row[]
    },
    pipeline,
    async transaction(run) {
      const client = await pool.connect()
      // A broken connection already fails the running statement. Without a listener, its error
      // event would end the process.
      const ignore = () => undefined
      client.on('error', ignore)
      let broken = true
      try {
        await client.query('BEGIN')
        const result = await run({
          async query<Row>(statement: Statement, values: readonly unknown[]) {
            return (await client.query({ ...statement, values: values as unknown[] })).rows as Row[]
          },
        })
        await client.query('COMMIT')
        broken = false
        return result
      } catch (error) {
        if (error instanceof pg.DatabaseError) {
          await client.query('ROLLBACK')
          broken = false
        }
        throw error
      } finally {
        client.off('error', ignore)
        client.release(broken)
      }
    },
    pressure,
    close: () => pool.end(),
  }
}

/** Options of a single connection, for locks and migrations, which need their own. */
export function connectionOptions(settings: DatabaseSettings): pg.ClientConfig {
  return {
    host: settings.host,
    port: settings.port,
    database: settings.database,
    user: settings.user,
    password: settings.password,
    connectionTimeoutMillis: settings.connectionTimeoutMs,
    application_name: 'chancery',
    statement_timeout: settings.statementTimeoutMs,
    query_timeout: settings.statementTimeoutMs + 1000,
    ssl: tlsOptions(settings.host, settings.sslmode),
  }
}

/**
 * Whether the commands of a failed batch may succeed one by one. SQLSTATE classes 22 and 23 refuse
 * a value of one command; 40P01 is a deadlock lost to another batch.
 */
export function isWorthSplitting(error: unknown): boolean {
  return error instanceof pg.DatabaseError && /^(?:22|23|40P01$)/.test(error.code ?? '')
}

/**
 * Whether the database is unreachable, shutting down or too slow: 503 with Retry-After, not 500.
 */
export function isUnavailable(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return /^(?:57014|57P|53|08)/.test(error.code ?? '')
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code === 'string' && /^(?:ECONN|ENOENT|EPIPE|ETIMEDOUT|EHOST|ENET)/.test(code)) return true
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
 * Commands of one row, which run one after the other; no client needs more than a few.
 * Without it, 1,150 finalizes a second of one order filled `MAX_WAITING`, and every account was
 * refused.
 */
const MAX_OF_KEY = 8
/**
 * Flushes of one kind at once; the pipeline starts a second one only while connections are slow.
 */
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
  traits: CommandTraits<C> = {},
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
