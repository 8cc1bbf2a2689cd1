/** A CA backend that a test writes. */

import type { CaBackend } from '../../../src/ca/backend.ts'

/** It is well, has no issuer and signs nothing, but for what the test gives it. */
export const aCaBackend = (own: Partial<CaBackend>): CaBackend => ({
  kind: 'scripted',
  outage: () => undefined,
  issuers: () => [],
  signCertificate: () => Promise.reject(new Error('no certificates here')),
  signCrl: () => Promise.reject(new Error('no CRLs here')),
  testSign: async () => [],
  unreachable: () => undefined,
  health: async () => ({ signing: true, tokens: [] }),
  close: async () => undefined,
  ...own,
})
