/** SQL of what administrators write about an account, and how many certificates it has. */

import * as z from 'zod/v4'
import type { Scope } from '../domain/permissions.ts'
import { isInScope } from './scope.ts'
import { type CommonQueryMethods, rowsOf, sql } from './slonik.ts'

const Written = z.object({ label: z.string().nullable(), tags: z.array(z.string()) })
type Written = z.infer<typeof Written>

interface NewAccountText {
  label: string | null
  tags: readonly string[]
}

/** Locks its row until the transaction ends. Null when there is no such account in the scope. */
export function lockAccount(tx: CommonQueryMethods, id: string, scope: Scope): Promise<Written | null> {
  return tx.maybeOne(rowsOf(Written)`
    SELECT label, tags FROM accounts a WHERE id = ${id} AND ${isInScope(sql.fragment`a`, scope)} FOR UPDATE`)
}

export async function writeAccount(tx: CommonQueryMethods, id: string, { label, tags }: NewAccountText): Promise<void> {
  await tx.query(rowsOf(z.object({}))`
    UPDATE accounts SET label = ${label}, tags = ${sql.array([...tags], 'text')} WHERE id = ${id}`)
}

/** For each row of a page; a page of a thousand accounts then takes a quarter of a second. */
const NEWEST_LOOKED_AT = 100

const Count = z.object({ id: z.string(), current: z.int(), more: z.boolean() })
export type CertificateCount = Omit<z.infer<typeof Count>, 'id'>

/**
 * Certificates that are neither expired nor revoked, among those of the newest orders. `more`: there are older orders, which
 * were not looked at.
 */
export async function countCertificates(
  db: CommonQueryMethods,
  ids: readonly string[],
): Promise<ReadonlyMap<string, CertificateCount>> {
  if (ids.length === 0) return new Map()
  // orders_account, certificates_imported, certificates_pkey
  const rows = await db.any(rowsOf(Count)`
    SELECT i.id, n.current, n.seen > ${NEWEST_LOOKED_AT} AS more
      FROM unnest(${sql.array([...ids], 'uuid')}) AS i (id), LATERAL (
        SELECT count(*)::integer AS seen,
               count(*) FILTER (WHERE c.revoked_at IS NULL AND c.not_after > now())::integer AS current
          FROM (
            (SELECT o.certificate_id FROM orders o WHERE o.account_id = i.id ORDER BY o.id DESC LIMIT ${NEWEST_LOOKED_AT + 1})
            UNION ALL
            (SELECT m.id FROM certificates m WHERE m.account_id = i.id AND m.order_id IS NULL
              ORDER BY m.id DESC LIMIT ${NEWEST_LOOKED_AT + 1})
            LIMIT ${NEWEST_LOOKED_AT + 1}
          ) r LEFT JOIN certificates c ON c.id = r.certificate_id
      ) n`)
  return new Map(rows.map(({ id, ...count }) => [id, count]))
}
