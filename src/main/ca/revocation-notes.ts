/** The notes of revocations at the signer, with the log of a thread. */

import type { Logger } from 'pino'
import type { CaBackend } from '../../ca/backend.ts'
import { createRevocationNotes, type ReportRevocations } from '../../services/reconcile/revocation-notes.ts'
import type { CertificateStore } from '../../store/certificate-store.ts'

export function revocationNotes(
  { ca, log }: { ca: Pick<CaBackend, 'issuers' | 'unreachable' | 'records'>; log: Logger },
  { certificates }: { certificates: CertificateStore },
): ReportRevocations {
  return createRevocationNotes({
    ca,
    records: ca.records,
    certificates,
    onFailed: (error, count) =>
      log.warn({ err: error, count }, 'revocations could not be noted at the signer; the next CRL has them'),
  })
}
