/** How an issuance from a CSR ends, and what its events name. */

import type { ClaimedIssuance } from '../store/csr-issuance-store.ts'
import type { IssuanceFacts, IssuanceOutcome } from './issuance.ts'

/** `pending`: the order is still processing. */
export type CsrOutcome = Exclude<IssuanceOutcome, 'left to recovery'> | 'pending'

export interface BackendFacts extends IssuanceFacts {
  backend: string
}

/** The serial number is known once a certificate has come. */
export function factsOf({ certificateId, accountId, orderId, backend }: ClaimedIssuance): BackendFacts {
  return { certificateId, accountId, orderId, serialNumber: '', backend }
}
