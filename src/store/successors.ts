/**
 * SQL of which certificates have a successor, as the warnings of expiry see it (expiration-store.ts):
 * an order that replaces the certificate has got one, or another certificate of its account ends later,
 * is not revoked and has all its names.
 */

import { z } from 'zod/v4'
import { type DatabasePool, rowsOf, sql } from './slonik.ts'

const Id = z.object({ id: z.string() })

/**
 * certificates_names, forced as in certificate-list.ts.
 * @returns those of `ids` that have a successor; a certificate of no account has none
 */
export async function succeededAmong(db: DatabasePool, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await db.any(rowsOf(Id)`
    WITH open AS MATERIALIZED (
      SELECT c.id, c.account_id, c.names, c.not_after FROM certificates c
       WHERE c.id = ANY (${sql.array(ids, 'uuid')}) AND c.account_id IS NOT NULL
    )
    SELECT r.certificate_id AS id FROM open p JOIN replacements r ON r.certificate_id = p.id JOIN orders o ON o.id = r.order_id
     WHERE o.certificate_id IS NOT NULL
     UNION ALL
    SELECT p.id FROM open p
     WHERE p.names <> '{}'
       AND EXISTS (SELECT FROM (SELECT * FROM certificates n WHERE n.names @> p.names OFFSET 0) n
                    WHERE n.account_id = p.account_id AND n.not_after > p.not_after AND n.revoked_at IS NULL)`)
  return new Set(rows.map(({ id }) => id))
}
