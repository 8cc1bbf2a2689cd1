/** Records a received certificate. A lost answer of the database costs neither it nor the line about it. */

import type { CertificateStore } from '../store/certificate-store.ts'
import type { CsrIssuanceStore, ReceivedCertificate, RecordOutcome } from '../store/csr-issuance-store.ts'
import { recordedAfterAll, untilDone } from './late-record.ts'
import { LAPSE_PROBLEMS } from './recovery.ts'

interface RecordParts {
  store: Pick<CsrIssuanceStore, 'record'>
  certificates: Pick<CertificateStore, 'findBySerial'>
  instanceId: number
}

/**
 * @param until end of the row's lease, by `performance.now()`
 * @param onRecordedAfterAll called when the last try has thrown, and has recorded it all the same
 * @throws database errors
 */
export async function recordReceived(
  parts: RecordParts,
  received: ReceivedCertificate,
  until: number,
  onRecordedAfterAll: (isLate: boolean) => void,
): Promise<RecordOutcome> {
  const { certificates } = parts
  const { serialNumber, der } = received
  try {
    return await recordOnce(parts, received, until)
  } catch (error) {
    // No other place learns of it.
    void recordedAfterAll(certificates, serialNumber, der).then(
      (known) => known && onRecordedAfterAll(known.revokedAt !== undefined),
    )
    throw error
  }
}

/** After a lost answer the row may be gone because this very certificate was recorded. */
async function recordOnce(
  { store, certificates, instanceId }: RecordParts,
  received: ReceivedCertificate,
  until: number,
): Promise<RecordOutcome> {
  let isAnswerLost = false
  const outcome = await untilDone(async () => {
    try {
      return await store.record(received, instanceId, LAPSE_PROBLEMS['key blocked'])
    } catch (error) {
      isAnswerLost = true
      throw error
    }
  }, until)
  if (outcome !== 'lost' || !isAnswerLost) return outcome
  const known = await untilDone(() => certificates.findBySerial(received.serialNumber, received.der), until)
  if (known?.id !== received.certificateId) return outcome
  return known.revokedAt === undefined ? 'recorded' : 'late'
}
