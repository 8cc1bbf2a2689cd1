/** SQL of what consumers of events are told beside the event itself. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { rowsOf } from './slonik.ts'

const Issued = z
  .object({ der: z.instanceof(Buffer), issuer_fingerprint: z.string() })
  .transform(({ der, issuer_fingerprint }) => ({ der, issuerFingerprint: issuer_fingerprint }))

export async function findIssued(db: CommonQueryMethods, certificateId: string) {
  const row = await db.maybeOne(rowsOf(Issued)`
    SELECT der, encode(issuer_fingerprint, 'hex') AS issuer_fingerprint FROM certificates WHERE id = ${certificateId}`)
  return row ?? undefined
}
