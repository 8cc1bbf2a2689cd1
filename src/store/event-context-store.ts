/** SQL of what consumers of events are told beside the event itself. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { rowsOf, sql } from './slonik.ts'

const Row = z.object({ id: z.string(), der: z.instanceof(Buffer), issuer_fingerprint: z.string() })

export interface Issued {
  der: Buffer
  issuerFingerprint: string
}

/** By certificate; those that retention has removed are missing. */
export async function findIssued(db: CommonQueryMethods, ids: readonly string[]): Promise<ReadonlyMap<string, Issued>> {
  const rows = await db.any(rowsOf(Row)`
    SELECT id, der, encode(issuer_fingerprint, 'hex') AS issuer_fingerprint
      FROM certificates WHERE id = ANY (${sql.array([...ids], 'uuid')})`)
  return new Map(rows.map(({ id, der, issuer_fingerprint }) => [id, { der, issuerFingerprint: issuer_fingerprint }]))
}
