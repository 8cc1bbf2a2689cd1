import type { IssuanceRequest } from '../../../src/ca/csr-backend.ts'

/** For a backend that does not read it. */
export const ISSUANCE_REQUEST: IssuanceRequest = {
  certificateId: '01',
  orderId: '02',
  csr: Buffer.of(0x30, 0),
  profile: 'default',
  validityDays: 90,
  identifiers: [],
  notBefore: new Date(0),
  notAfter: new Date(1),
  requested: {},
  replaces: undefined,
}
