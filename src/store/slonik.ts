/**
 * slonik: SQL with checked rows for the command line, the Admin API and background work, where a call may cost 260 µs.
 *
 * The one place where slonik's zod 3 meets the zod 4 of everything else.
 */

import './navigator.ts'
import { createPool, type DatabasePool, sql, stringifyDsn } from 'slonik'
import { z as zod3 } from 'zod'
import type { z } from 'zod/v4'
import { connectionOptions, type DatabaseSettings } from './database.ts'

export type { DatabasePool }
export { sql }

/** `sql.type` with a zod 4 schema: each row is checked by it, and a row that does not fit is an error. */
export function rowsOf<T>(schema: z.ZodType<T>) {
  return sql.type(zod3.unknown().transform((row): T => schema.parse(row)))
}

/** SQL that is a constant of ours, shared with statements outside slonik, which by itself takes it from template literals only. */
export function constantSql(text: string) {
  return sql.fragment(Object.assign([text], { raw: Object.freeze([text]) }))
}

/** Idle connections of a pool that is used now and then go soon. */
const IDLE_MS = 5_000

/** @param settings `maxConnections` counts beside the pool of `openDatabase`. */
export function openCheckedDatabase(settings: DatabaseSettings): Promise<DatabasePool> {
  const { ssl } = connectionOptions(settings)
  const uri = stringifyDsn({
    applicationName: 'chancery',
    // A folder with a socket and an IPv6 address would otherwise not survive the URI.
    host: encodeURIComponent(settings.host),
    port: settings.port,
    databaseName: settings.database,
    username: settings.user,
    password: settings.password,
    sslMode: 'disable',
  })
  return createPool(uri, {
    ...(typeof ssl === 'object' && { ssl }),
    maximumPoolSize: settings.maxConnections,
    connectionTimeout: settings.connectionTimeoutMs,
    connectionRetryLimit: 0,
    idleTimeout: Math.min(settings.idleTimeoutMs, IDLE_MS),
    statementTimeout: settings.statementTimeoutMs,
    idleInTransactionSessionTimeout: settings.statementTimeoutMs,
    gracefulTerminationTimeout: settings.statementTimeoutMs,
    // A lost deadlock or serialisation: once more, not five times.
    queryRetryLimit: 1,
    transactionRetryLimit: 1,
    // slonik's default is DISCARD ALL after each use. Nothing here changes a session (no SET, LISTEN, temporary tables
    // or session locks), so it would only be one more round trip for each call.
    resetConnection: async () => undefined,
    // Dates as `pg` gives them and not as numbers; counts are cast to integer where they are selected.
    typeParsers: [],
    interceptors: [
      {
        name: 'checked rows',
        transformRow: ({ resultParser }, _query, row) => (resultParser ? resultParser.parse(row) : row),
      },
    ],
  })
}
