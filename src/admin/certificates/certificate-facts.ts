/** SQL of what a certificate is connected with: its profile, key, successor, advice and timestamps. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { rowsOf, sql } from '../../store/slonik.ts'

const Facts = z.object({
  profile: z.string().nullable(),
  is_key_blocked: z.boolean(),
  is_replaced: z.boolean(),
  window_start: z.date().nullable(),
  window_end: z.date().nullable(),
  explanation_url: z.string().nullable(),
})
const LogTimestamp = z.object({ log_url: z.string(), signed_at: z.date(), verified: z.boolean() })

export type CertificateFacts = z.infer<typeof Facts> & { timestamps: readonly z.infer<typeof LogTimestamp>[] }

/** Primary keys only. @param spki SHA-256 of its public key */
export async function readCertificateFacts(
  db: CommonQueryMethods,
  { id, orderId, spki }: { id: string; orderId: string | null; spki: Buffer },
): Promise<CertificateFacts> {
  const facts = await db.one(rowsOf(Facts)`
    SELECT (SELECT profile FROM orders WHERE id = ${orderId}::uuid) AS profile,
           EXISTS (SELECT FROM blocked_keys WHERE spki_sha256 = ${sql.binary(spki)}) AS is_key_blocked,
           EXISTS (SELECT FROM replacements WHERE certificate_id = ${id}) AS is_replaced,
           a.window_start, a.window_end, a.explanation_url
      FROM (SELECT) x LEFT JOIN renewal_advice a ON a.certificate_id = ${id}`)
  const timestamps = await db.any(rowsOf(LogTimestamp)`
    SELECT log_url, signed_at, verified FROM signed_certificate_timestamps WHERE certificate_id = ${id} ORDER BY log_url`)
  return { ...facts, timestamps }
}
