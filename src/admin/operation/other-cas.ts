/** CAs besides the signer, for profiles with a `backend`: with which issuer they sign, when last, and what is open there. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import { rowsOf } from '../../store/slonik.ts'

const Row = z.object({
  backend: z.string(),
  /** SHA-256 of the issuer's certificate; null before the CA has issued one. */
  fingerprint: z.string().nullable(),
  certificate: z.instanceof(Buffer).nullable(),
  last_issued_at: z.date().nullable(),
  open: z.int(),
  failures: z.int(),
})
export type OtherCa = z.infer<typeof Row>

/** No probe asks these CAs. The state comes from the newest certificates and the requests under way. */
export function readOtherCas(db: CommonQueryMethods): Promise<readonly OtherCa[]> {
  // certificates_pkey, from its end; csr_issuances holds only what is in flight
  return db.any(rowsOf(Row)`
    SELECT backend, encode(i.fingerprint, 'hex') AS fingerprint, i.certificate, u.last_issued_at,
           coalesce(n.open, 0) AS open, coalesce(n.failures, 0) AS failures
      FROM (SELECT backend, issuer_fingerprint, max(issued_at) AS last_issued_at
              FROM (SELECT backend, issuer_fingerprint, issued_at FROM certificates ORDER BY id DESC LIMIT 10000) c
             WHERE backend IS NOT NULL GROUP BY backend, issuer_fingerprint) u
      FULL JOIN (SELECT backend, count(*)::integer AS open, max(failures) AS failures FROM csr_issuances
                  WHERE abandoned_at IS NULL GROUP BY backend) n USING (backend)
      LEFT JOIN issuers i ON i.fingerprint = u.issuer_fingerprint
     ORDER BY u.last_issued_at DESC NULLS LAST`)
}

/** Certificates of other CAs end with their issuers, as do certificates of the signer. */
export const issuersOf = (others: readonly OtherCa[]) =>
  others.flatMap(({ backend, certificate }) =>
    certificate ? [{ id: backend, certificate, notAfter: parseCertificate(certificate).tbs.notAfter }] : [],
  )
