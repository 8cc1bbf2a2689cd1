/** SQL of the list of binding credentials, newest first, along eab_credentials_pkey. */

import { z } from 'zod/v4'
import { Credential, type CredentialRow, credentialColumns } from './credential-store.ts'
import { allOf, behind, type Fragment, type ReadPage, readPage, unbounded, upTo, type Walk } from './list-page.ts'
import { type DatabasePool, rowsOf, sql } from './slonik.ts'

/** Of a credential itself: a used one is open or not by `max_uses` and `acme.eab_reusable`. */
export const CREDENTIAL_STATUSES = ['open', 'expired', 'revoked'] as const
export type CredentialStatus = (typeof CREDENTIAL_STATUSES)[number]

const HAS_STATUS: Readonly<Record<CredentialStatus, Fragment>> = {
  open: sql.fragment`NOT revoked AND coalesce(expires_at > now(), true)`,
  expired: sql.fragment`NOT revoked AND expires_at <= now()`,
  revoked: sql.fragment`revoked`,
}
const Id = z.object({ id: z.string() })
const id = sql.fragment`id`

/** @param kid undefined for all, as `status` */
export function pagesOfCredentials(db: DatabasePool, kid?: string, status?: CredentialStatus): ReadPage<CredentialRow> {
  const fits = [
    ...(kid === undefined ? [] : [sql.fragment`kid = ${kid}`]),
    ...(status === undefined ? [] : [HAS_STATUS[status]]),
  ]
  const walk: Walk<CredentialRow> = {
    cursorOf: (row) => row.id,
    async windowEnd(from, rows) {
      const row = await db.maybeOne(rowsOf(Id)`
        SELECT id FROM eab_credentials WHERE ${behind(id, from)} ORDER BY id DESC OFFSET ${rows - 1} LIMIT 1`)
      return row?.id
    },
    async read(from, end, limit) {
      return [
        ...(await db.any(rowsOf(Credential)`
          SELECT ${credentialColumns} FROM eab_credentials WHERE ${allOf([behind(id, from), upTo(id, end), ...fits])}
           ORDER BY id DESC LIMIT ${limit}`)),
      ]
    },
  }
  const isFound = status === undefined || kid !== undefined
  return (after, limit) => readPage(isFound ? unbounded(walk) : walk, after, limit)
}
