/**
 * Indexes that only some installations need, made on demand while the service runs. Elsewhere each
 * certificate would pay for them.
 */

import * as z from 'zod/v4'
import { type CommonQueryMethods, constantSql, type DatabasePool, rowsOf, sql } from './slonik.ts'

/** Name → table and columns or expressions. */
export type IndexDefinitions = Readonly<Record<string, string>>

/** Read before issuance for profiles with `reuse_key` or `renewal_window_days` (account-rules-store.ts). */
export const HISTORY_INDEXES: IndexDefinitions = {
  certificates_spki: 'certificates (spki_sha256)',
}

/**
 * Lists filtered by issuer, key or contact use these, and lists of orders filtered by name, and lists of revoked
 * certificates by expiry (certificate-ways.ts, order-list.ts, account-list.ts). So does the search for the beginning of a
 * name (search-store.ts).
 */
export const SEARCH_INDEXES: IndexDefinitions = {
  certificates_issuer: 'certificates (issuer_fingerprint, id)',
  certificates_spki: 'certificates (spki_sha256)',
  certificates_revoked_expiry: 'certificates (not_after, id) WHERE revoked_at IS NOT NULL',
  // Only the values: with the type, an entry that all rows share, an order would write twice as much.
  orders_names: `orders USING gin (jsonb_path_query_array(identifiers, '$[*].value') jsonb_path_ops)`,
  accounts_contacts: 'accounts USING gin (contacts)',
  certificates_first_name: 'certificates ((names[1]) COLLATE "C")',
}

const State = z.object({ name: z.string(), valid: z.boolean(), bytes: z.number() })
const None = z.object({})

/** `valid` is false while it is being made, or after an interruption. */
type IndexState = z.infer<typeof State>

/** States of the indexes that exist. */
export function readIndexes(db: CommonQueryMethods, definitions: IndexDefinitions): Promise<readonly IndexState[]> {
  return db.any(rowsOf(State)`
    SELECT n.name, i.indisvalid AS valid, pg_relation_size(i.indexrelid)::float8 AS bytes
      FROM unnest(${sql.array(Object.keys(definitions), 'text')}) AS n (name)
      JOIN pg_index i ON i.indexrelid = to_regclass(n.name)`)
}

/** Takes minutes on a large table; CONCURRENTLY lets issuance continue. An interruption leaves an invalid index. */
export function makeIndexes(db: DatabasePool, definitions: IndexDefinitions): Promise<void> {
  return withoutTimeLimit(db, async (connection) => {
    const unfinished = (await readIndexes(connection, definitions)).filter(({ valid }) => !valid)
    await drop(
      connection,
      unfinished.map(({ name }) => name),
    )
    for (const [name, definition] of Object.entries(definitions))
      await connection.query(rowsOf(None)`
        CREATE INDEX CONCURRENTLY IF NOT EXISTS ${sql.identifier([name])} ON ${constantSql(definition)}`)
    // No plan needs statistics of the expression, which double the ANALYZE of orders.
    if (Object.hasOwn(definitions, 'orders_names'))
      await connection.query(rowsOf(None)`ALTER INDEX orders_names ALTER COLUMN 1 SET STATISTICS 0`)
  })
}

export function dropIndexes(db: DatabasePool, names: readonly string[]): Promise<void> {
  return withoutTimeLimit(db, (connection) => drop(connection, names))
}

async function drop(connection: CommonQueryMethods, names: readonly string[]): Promise<void> {
  for (const name of names)
    await connection.query(rowsOf(None)`DROP INDEX CONCURRENTLY IF EXISTS ${sql.identifier([name])}`)
}

async function withoutTimeLimit(db: DatabasePool, work: (connection: CommonQueryMethods) => Promise<void>) {
  await db.connect(async (connection) => {
    await connection.query(rowsOf(None)`SET statement_timeout = 0`)
    try {
      await work(connection)
    } finally {
      await connection.query(rowsOf(None)`RESET statement_timeout`)
    }
  })
}
