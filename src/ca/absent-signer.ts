/** The signer of a service whose certificates all come from elsewhere: it has no issuer. */

import { type CaBackend, CaError, type CaOutage } from './backend.ts'

const OUTAGE: CaOutage = { reason: 'no backend of this service signs', retryAfterSeconds: 60 }

const refuse = () => Promise.reject(new CaError(OUTAGE.reason, { retryable: true }))

export function absentSigner(): CaBackend {
  return {
    kind: 'absent',
    issuers: () => [],
    outage: () => OUTAGE,
    signCertificate: refuse,
    signCrl: refuse,
    testSign: async () => [],
    unreachable: () => undefined,
    health: async () => ({ signing: true, tokens: [] }),
    close: async () => {},
  }
}
