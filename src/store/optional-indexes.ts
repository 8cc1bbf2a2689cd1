/**
 * Indexes that only some installations need, made on demand while the service runs. Elsewhere each
 * certificate would pay for them.
 */

import type { Database, Statement } from './database.ts'

/** Name → table and columns or expressions. */
export type IndexDefinitions = Readonly<Record<string, string>>

/**
 * Read before issuance for profiles with `reuse_key` or `renewal_window_days`
 * (csr-profile-store.ts).
 */
export const HISTORY_INDEXES: IndexDefinitions = {
  certificates_spki: 'certificates (spki_sha256)',
  certificates_names: 'certificates USING gin (names)',
}

/**
 * Read by lists filtered by name, issuer or contact (certificate-list.ts, order-list.ts,
 * account-list.ts).
 */
export const SEARCH_INDEXES: IndexDefinitions = {
  certificates_names: 'certificates USING gin (names)',
  certificates_issuer: 'certificates (issuer_fingerprint, id)',
  // Only the values: with the type, an entry that all rows share, an order would write twice as
  // much.
  orders_names: `orders USING gin (jsonb_path_query_array(identifiers, '$[*].value') jsonb_path_ops)`,
  accounts_contacts: 'accounts USING gin (contacts)',
}

const STATES: Statement = {
  name: 'optional-index-states',
  text: `
    SELECT n.name, i.indisvalid AS valid, pg_relation_size(i.indexrelid)::float8 AS bytes
      FROM unnest($1::text[]) AS n (name) JOIN pg_index i ON i.indexrelid = to_regclass(n.name)`,
}

export interface IndexState {
  name: string
  /** False while it is being made, or after an interruption. */
  valid: boolean
  bytes: number
}

export function readIndexes(db: Pick<Database, 'query'>, definitions: IndexDefinitions): Promise<IndexState[]> {
  return db.query<IndexState>(STATES, [Object.keys(definitions)])
}

/**
 * Takes minutes on a large table; CONCURRENTLY lets issuance continue. An interruption leaves an
 * invalid index.
 */
export async function makeIndexes(db: Pick<Database, 'query'>, definitions: IndexDefinitions): Promise<void> {
  const unfinished = (await readIndexes(db, definitions)).filter(({ valid }) => !valid)
  await dropIndexes(
    db,
    unfinished.map(({ name }) => name),
  )
  for (const [name, definition] of Object.entries(definitions))
    await db.query(
      { name: `create-${name}`, text: `CREATE INDEX CONCURRENTLY IF NOT EXISTS ${name} ON ${definition}` },
      [],
    )
  // No plan needs statistics of the expression, which double the ANALYZE of orders (as in migration
  // 0012).
  if (Object.hasOwn(definitions, 'orders_names'))
    await db.query({ name: 'set-orders_names', text: 'ALTER INDEX orders_names ALTER COLUMN 1 SET STATISTICS 0' }, [])
}

export async function dropIndexes(db: Pick<Database, 'query'>, names: readonly string[]): Promise<void> {
  for (const name of names)
    await db.query({ name: `drop-${name}`, text: `DROP INDEX CONCURRENTLY IF EXISTS ${name}` }, [])
}
