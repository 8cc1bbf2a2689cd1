/**
 * Completes issuances that a backup caught between their intent and their certificate, with that certificate. Recovery
 * would sign them again with other bytes.
 */

import type { AuditLog } from '../../admin/audit/audit-log.ts'
import type { Actor } from '../../domain/administrator.ts'
import { withoutSignOctet } from '../../domain/revocation.ts'
import { parseCertificate, verifyCertificateSignature } from '../../shared/pki/certificate.ts'
import { createCertificateImport } from '../../store/certificate-import.ts'
import type { Database } from '../../store/database.ts'
import { createIssuanceStore } from '../../store/issuance-store.ts'
import type { ImportedCertificate, Unreadable } from '../model.ts'

/** @returns completes those of a page */
export function issuanceCompletion(db: Database, audit: AuditLog, actor: Actor) {
  const { findIntents, issuers } = createCertificateImport(db)
  const { complete } = createIssuanceStore(db)
  return async (page: readonly (ImportedCertificate | Unreadable)[]): Promise<void> => {
    const certificates = page.flatMap((one) => ('der' in one ? [parseCertificate(one.der)] : []))
    const serialNumbers = certificates.map(({ tbs }) => withoutSignOctet(tbs.serialNumber))
    const intents = await findIntents(serialNumbers)
    const known = intents.size > 0 ? await issuers() : []
    const keys = known.map((issuer) => parseCertificate(issuer.certificate).tbs.spki.der)
    for (const [at, certificate] of certificates.entries()) {
      const { der, tbs, tbsDer } = certificate
      const serialNumber = (serialNumbers[at] as Buffer).toString('hex')
      const intent = intents.get(serialNumber)
      // An equal TBS with a garbled signature would be what the client downloads.
      const isSigned = keys.some((key) => verifyCertificateSignature(certificate, key))
      if (!intent?.tbs.equals(tbsDer) || !isSigned) continue
      const { notBefore, notAfter } = tbs
      const names = [...tbs.dnsNames, ...tbs.ipAddresses]
      if (await complete({ certificateId: intent.certificateId, der, names, notBefore, notAfter }))
        await audit.record(actor, 'certificate.import', { serial_number: serialNumber, outcome: 'completed' })
    }
  }
}
