/** SQL of the issuers whose certificates the database has, the newest first. There are few. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { rowsOf, sql } from '../../store/slonik.ts'

const Issuer = z.object({
  fingerprint: z.string(),
  certificate: z.instanceof(Buffer),
  /** Upwards, itself included. */
  chain: z.array(z.instanceof(Buffer)),
})
export type IssuerRow = z.infer<typeof Issuer>

const columns = sql.fragment`encode(fingerprint, 'hex') AS fingerprint, certificate, chain`

export function listIssuerRows(
  db: CommonQueryMethods,
  { limit, offset }: { limit: number; offset: number },
): Promise<readonly IssuerRow[]> {
  return db.any(rowsOf(Issuer)`
    SELECT ${columns} FROM issuers ORDER BY created_at DESC, issuers.fingerprint LIMIT ${limit} OFFSET ${offset}`)
}

/** @param fingerprint SHA-256 in lower-case hexadecimal */
export function findIssuerRow(db: CommonQueryMethods, fingerprint: string): Promise<IssuerRow | null> {
  return db.maybeOne(rowsOf(Issuer)`
    SELECT ${columns} FROM issuers WHERE fingerprint = decode(${fingerprint}, 'hex')`)
}
