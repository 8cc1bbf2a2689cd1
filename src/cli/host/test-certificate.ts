/** The certificate of a test in the database: recorded without an account, and revoked at once. */

import { revokeBySerial } from '../../admin/revocations/certificate-revocations.ts'
import { serialNumberHex } from '../../shared/pki/tbs-certificate.ts'
import type { Database } from '../../store/database.ts'
import { createServerSettings } from '../../store/server-settings.ts'
import type { Administration } from '../operator-database.ts'

/** cessationOfOperation (RFC 5280 §5.3.1); superseded would promise a successor. */
export const TEST_REASON = 5

export const SIGNER_TEST_NAME = 'test-sign.invalid'

/** Metrics are the service's; here the audit log has the entry. */
const NO_EVENTS = { revoked: () => undefined }

/** @throws Error while the operator has stopped signing */
export async function requireRunning(db: Database): Promise<void> {
  const { stopSigning } = await createServerSettings(db).switches()
  if (stopSigning.on)
    throw new Error('signing is stopped, so no certificate was asked for; chancery signing resume ends that')
}

/** With an entry in the audit log. @returns its serial number in hexadecimal */
export async function revokeTestCertificate(
  { audit, actor }: Administration,
  certificate: { serialNumber: Buffer; issuerFingerprint: string },
): Promise<string> {
  const serialNumber = serialNumberHex(certificate.serialNumber)
  const { issuerFingerprint } = certificate
  const wanted = { reason: TEST_REASON, issuerFingerprint }
  await revokeBySerial({ audit, events: NO_EVENTS }, actor, serialNumber, wanted)
  return serialNumber
}
