/**
 * SQL of which certificates have a successor, as the warnings of expiry see it (expiration-store.ts):
 * an order that replaces the certificate has got one, or another certificate of its account ends later,
 * is not revoked and has all its names.
 */

import { z } from 'zod/v4'
import { type Fragment, hasIndex } from './list-page.ts'
import { type DatabasePool, rowsOf, sql } from './slonik.ts'

const Id = z.object({ id: z.string() })

/** @returns those of `ids` that have a successor; a certificate of no account has none */
export async function succeededAmong(db: DatabasePool, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const isOther = (await hasIndex(db, 'certificates_names')) ? FOUND_BY_NAME : FOUND_IN_ACCOUNT
  const rows = await db.any(rowsOf(Id)`
    WITH open AS MATERIALIZED (
      SELECT c.id, c.account_id, c.names, c.names[1] AS name, c.not_after,
             coalesce(c.order_id, (lpad(to_hex((extract(epoch FROM c.not_before) * 1000)::bigint), 12, '0')
                                   || '70008000000000000000')::uuid) AS since
        FROM certificates c
       WHERE c.id = ANY (${sql.array(ids, 'uuid')}) AND c.account_id IS NOT NULL
    )
    SELECT r.certificate_id AS id FROM open p JOIN replacements r ON r.certificate_id = p.id JOIN orders o ON o.id = r.order_id
     WHERE o.certificate_id IS NOT NULL
     UNION ALL ${isOther}`)
  return new Set(rows.map(({ id }) => id))
}

const SUCCEEDS = sql.fragment`n.account_id = p.account_id AND n.not_after > p.not_after AND n.revoked_at IS NULL`

/** certificates_names, forced as in certificate-list.ts. */
const FOUND_BY_NAME: Fragment = sql.fragment`
  SELECT p.id FROM open p
   WHERE p.name IS NOT NULL
     AND EXISTS (SELECT FROM (SELECT * FROM certificates n WHERE n.names @> p.names OFFSET 0) n WHERE ${SUCCEEDS})`

/**
 * orders_account from the oldest of these on, once for each account, and certificates_imported; then
 * certificates_pkey for those that share a name. An account with many orders takes long.
 */
const FOUND_IN_ACCOUNT: Fragment = sql.fragment`
  (WITH account AS MATERIALIZED (
    SELECT DISTINCT ON (account_id) account_id, since FROM open ORDER BY account_id, since
  ), other AS MATERIALIZED (
    SELECT o.account_id, o.certificate_id AS id, v.value->>'value' AS name
      FROM account a JOIN orders o ON o.account_id = a.account_id AND o.id > a.since AND o.certificate_id IS NOT NULL
     CROSS JOIN LATERAL jsonb_array_elements(o.identifiers) AS v
     WHERE ((o.account_id, v.value->>'value') IN (SELECT account_id, name FROM open)) IS TRUE
     UNION ALL
    SELECT n.account_id, n.id, v.name
      FROM account a JOIN certificates n ON n.account_id = a.account_id AND n.order_id IS NULL
     CROSS JOIN LATERAL unnest(n.names) AS v (name)
     WHERE ((n.account_id, v.name) IN (SELECT account_id, name FROM open)) IS TRUE
  )
  SELECT p.id FROM open p JOIN other ON other.account_id = p.account_id AND other.name = p.name
    JOIN certificates n ON n.id = other.id
   WHERE n.names @> p.names AND ${SUCCEEDS})`
