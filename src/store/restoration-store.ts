/** The statements by which what the signer has recorded comes back. */

import { uuidv7 } from '../shared/lib/uuid.ts'
import { type CertificateImport, createCertificateImport } from './certificate-import.ts'
import type { Database } from './database.ts'
import type { IssuanceStore } from './issuance-store.ts'
import { type RestoredRevocation, recordUnseen, revokeListed } from './revocation-import.ts'
import type { IssuerRevocations } from './signer-mark-store.ts'

export interface RestorationStore {
  imports: CertificateImport
  issuance: Pick<IssuanceStore, 'complete'>
  /**
   * Revokes what a list has revoked, in one transaction. A certificate that is unknown gets a row without DER
   * (docs/decisions/lost-certificates.md).
   * @param notAfter of such a row
   */
  revoke(revocations: IssuerRevocations, notAfter: Date): Promise<RestoredRevocation[]>
}

export function restorationStore(db: Database, issuance: Pick<IssuanceStore, 'complete'>): RestorationStore {
  return {
    imports: createCertificateImport(db),
    issuance,
    revoke: (revocations, notAfter) =>
      db.transaction(async (tx) => {
        const unseen = revocations.entries.map(({ serialNumber }) => ({
          id: uuidv7(Date.now()),
          serialNumber: Buffer.from(serialNumber, 'hex'),
        }))
        await recordUnseen(tx, revocations.issuerFingerprints, notAfter, unseen)
        return revokeListed(tx, revocations)
      }),
  }
}
