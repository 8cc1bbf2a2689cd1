/** SQL of the certificates that a changed CSR profile is tried on. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { ALL_ROWS } from '../../store/list-page.ts'
import { rowsOf, sql } from '../../store/slonik.ts'

const Issued = z.object({
  serial_number: z.string(),
  account_id: z.string(),
  names: z.array(z.string()),
  der: z.instanceof(Buffer),
})
export type IssuedCertificate = z.infer<typeof Issued>

/** Rows of certificates_pkey that are looked through for those of one profile. */
const LOOKED_THROUGH = 10_000

/**
 * Certificates of accounts, the newest first.
 * @param profileId only those of accounts for which this profile counts, among the last 10,000
 */
export function listIssuedLately(
  db: CommonQueryMethods,
  profileId: string | undefined,
  limit: number,
): Promise<readonly IssuedCertificate[]> {
  const concerned =
    profileId === undefined
      ? ALL_ROWS
      : sql.fragment`EXISTS (SELECT FROM account_csr_profiles a
                              WHERE a.account_id = c.account_id AND a.csr_profile_id = ${profileId})`
  return db.any(rowsOf(Issued)`
    SELECT encode(c.serial_number, 'hex') AS serial_number, c.account_id, c.names, c.der
      FROM (SELECT * FROM certificates ORDER BY id DESC LIMIT ${profileId === undefined ? limit : LOOKED_THROUGH}) c
     WHERE c.account_id IS NOT NULL AND length(c.der) > 0 AND ${concerned}
     ORDER BY c.id DESC LIMIT ${limit}`)
}
