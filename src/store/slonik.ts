/**
 * slonik: SQL with checked rows for the command line, the Admin API and background work, where a call may cost 260 µs.
 */

import { createPgDriverFactory } from '@slonik/pg-driver'
import {
  BackendTerminatedError,
  BackendTerminatedUnexpectedlyError,
  type CommonQueryMethods,
  ConnectionError,
  createPool,
  type DatabasePool,
  type DriverFactory,
  type PrimitiveValueExpression,
  StatementTimeoutError,
  sql,
  stringifyDsn,
} from 'slonik'
import type { z } from 'zod/v4'
import { startTimeLimit } from '../shared/lib/time-limit.ts'
import { type Database, type DatabaseSettings, isUnavailable, type Statement } from './database.ts'
import { requireCompared } from './incarnation.ts'
import { beginSession, connectionOptions, timeLimits } from './session.ts'
import { type Session, Sessions } from './sessions.ts'

export type { CommonQueryMethods, DatabasePool }
export { StatementTimeoutError, sql }

/** PostgreSQL ends a statement itself that takes too long, and says so. */
const GRACE_MS = 1_000

/** `sql.type`: the schema checks each row. A row that does not fit is an error. */
export function rowsOf<T>(schema: z.ZodType<T>) {
  return sql.type(schema)
}

/** Parameters of `unnest`: each has one value of every row. */
export const columnsOf =
  <T>(rows: readonly T[]) =>
  (value: (row: T) => string | null, type: string) =>
    sql.array(rows.map(value), type)

/**
 * Makes a fragment of constant SQL that statements outside slonik share. slonik itself takes only template literals.
 */
export function constantSql(text: string) {
  return sql.fragment(Object.assign([text], { raw: Object.freeze([text]) }))
}

/** Runs statements of the `pg` stores in a pool or transaction of slonik, so that each statement exists once. */
export function queriesOf(db: CommonQueryMethods): Pick<Database, 'query'> {
  return {
    async query<Row>({ text }: Statement, values: readonly unknown[]): Promise<Row[]> {
      const query = { ...sql.unsafe``, sql: text, values: values as readonly PrimitiveValueExpression[] }
      return [...(await db.any(query))] as Row[]
    },
  }
}

/** Whether the database is away, too slow, or at work on the same rows for another: 503, not 500. */
export function isBusy(error: unknown): boolean {
  if (error instanceof ConnectionError || error instanceof BackendTerminatedError) return true
  if (error instanceof BackendTerminatedUnexpectedlyError || error instanceof StatementTimeoutError) return true
  if (isUnavailable(error)) return true
  return error instanceof Error && error.cause !== undefined && isBusy(error.cause)
}

const INSUFFICIENT_PRIVILEGE = '42501'

/** Whether the role of the service may not do this: it does not own the tables. */
export function isNotOwner(error: unknown): boolean {
  if ((error as { code?: unknown } | null)?.code === INSUFFICIENT_PRIVILEGE) return true
  return error instanceof Error && error.cause !== undefined && isNotOwner(error.cause)
}

/**
 * slonik's driver, with sessions that begin as all sessions of the service do. A driver is made for one host and
 * connects at once, so each host gets its own when it is tried.
 */
function sessionDriver(settings: DatabaseSettings): DriverFactory {
  return async ({ driverConfiguration }) => {
    const sessions = new Sessions(settings)
    const { hosts } = sessions
    const drivers = new Map<string, Driver>()
    const driverOf = async (host: string): Promise<Driver> => {
      const { ssl } = connectionOptions(settings, host)
      const configuration = { ...driverConfiguration, connectionUri: uriOf(settings, host) }
      return createPgDriverFactory()({
        driverConfiguration: typeof ssl === 'object' ? { ...configuration, ssl } : configuration,
      })
    }
    const begin = (host: string) =>
      watched(sessions, host, settings, async (session) => {
        const driver = drivers.get(host) ?? (await driverOf(host))
        drivers.set(host, driver)
        const client = await driver.createClient()
        client.acquire()
        try {
          const server = await beginSession(client, host, timeLimits(settings.statementTimeoutMs))
          if (settings.requireCompared?.()) await requireCompared(client, host)
          sessions.begun(session, server)
        } catch (error) {
          await client.destroy()
          throw error
        }
        await client.release()
        return client
      })
    return {
      createClient: () =>
        hosts.find((host) =>
          begin(host).catch((error: unknown) => {
            hosts.leave(host)
            throw error
          }),
        ),
    }
  }
}

type Driver = Awaited<ReturnType<DriverFactory>>
type DriverClient = Awaited<ReturnType<Driver['createClient']>>

/**
 * A client whose work fails when its session is ended, and ends it when an answer takes too long: slonik has no such bound,
 * and its own `destroy` waits for the work that is under way.
 */
async function watched(
  sessions: Sessions,
  host: string,
  { connectionTimeoutMs, statementTimeoutMs }: DatabaseSettings,
  create: (session: Session) => Promise<DriverClient>,
): Promise<DriverClient> {
  let end: BackendTerminatedError | undefined
  const waiting = new Set<(error: Error) => void>()
  const endWith = (reason: string) => {
    if (end) return
    end = new BackendTerminatedError(new Error(reason))
    for (const fail of waiting) fail(end)
  }
  const session = sessions.open(host, () => endWith('another server leads'))
  /** No race against one promise of the end: it would keep every result until then. */
  const orEnd = <T>(work: Promise<T>, ms = 0): Promise<T> =>
    new Promise((resolve, reject) => {
      const giveUp = () => {
        sessions.closed(session)
        endWith(`the database at ${host} does not answer`)
      }
      const cancel = ms > 0 ? startTimeLimit(ms + GRACE_MS, giveUp) : () => undefined
      const settle = () => {
        cancel()
        waiting.delete(reject)
      }
      waiting.add(reject)
      work.finally(settle).then(resolve, reject)
      if (end) reject(end)
    })
  const creation = create(session)
  creation.then(
    (client) => {
      client.on('destroy', () => sessions.closed(session))
      const leave = () => void client.destroy().catch(() => undefined) // nothing is left to end
      if (end) leave()
      else waiting.add(leave)
    },
    () => sessions.closed(session),
  )
  const client = await orEnd(creation, connectionTimeoutMs)
  return {
    ...client,
    destroy: () => orEnd(client.destroy()).catch((error) => (error === end ? undefined : Promise.reject(error))),
    async query(text, values) {
      session.busy()
      try {
        return await orEnd(client.query(text, values), statementTimeoutMs)
      } finally {
        session.idle()
      }
    },
  }
}

function uriOf({ port, database, user, password }: DatabaseSettings, host: string): string {
  return stringifyDsn({
    applicationName: 'chancery',
    // Unescaped, a socket's folder or an IPv6 address would break the URI.
    host: encodeURIComponent(host),
    port,
    databaseName: database,
    username: user,
    password,
    sslMode: 'disable',
  })
}

/** Short, because the pool is used only now and then. */
const IDLE_MS = 5_000

/** @param settings `maxConnections` counts beside the pool of `openDatabase`. */
export function openCheckedDatabase(settings: DatabaseSettings): Promise<DatabasePool> {
  const [host = ''] = settings.hosts
  return createPool(uriOf(settings, host), {
    driverFactory: sessionDriver(settings),
    maximumPoolSize: settings.maxConnections,
    connectionTimeout: settings.connectionTimeoutMs,
    connectionRetryLimit: 0,
    idleTimeout: Math.min(settings.idleTimeoutMs, IDLE_MS),
    // The driver would ask for these at the start of a connection (session.ts).
    statementTimeout: 'DISABLE_TIMEOUT',
    idleInTransactionSessionTimeout: 'DISABLE_TIMEOUT',
    gracefulTerminationTimeout: settings.statementTimeoutMs,
    // Repeats a lost deadlock or serialisation once, not five times.
    queryRetryLimit: 1,
    transactionRetryLimit: 1,
    // slonik's default is DISCARD ALL after each use, one more round trip. Nothing here changes a
    // session: no LISTEN, temporary table or session lock, and no SET without a RESET.
    resetConnection: async () => undefined,
    // Dates stay as `pg` parses them, not numbers; statements cast counts to integer.
    typeParsers: [],
    interceptors: [
      {
        name: 'checked rows',
        transformRow: ({ resultParser }, _query, row) => (resultParser ? resultParser.parse(row) : row) as typeof row,
      },
    ],
  })
}
