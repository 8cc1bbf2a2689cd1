/** The table of ACME resources by name; `protocol/urls.ts` recognises the names. */

import type { ResourceName } from '../shared/protocol/urls.ts'
import { account } from './account.ts'
import { accountOrders } from './account-orders.ts'
import { authorization } from './authorization.ts'
import { certificate } from './certificate.ts'
import { challenge } from './challenge.ts'
import { directory } from './directory.ts'
import type { AcmeEndpoint } from './endpoint.ts'
import { finalize } from './finalize.ts'
import { keyChange } from './key-change.ts'
import { newAccount } from './new-account.ts'
import { newAuthz } from './new-authz.ts'
import { newNonce } from './new-nonce.ts'
import { newOrder } from './new-order.ts'
import { order } from './order.ts'
import { revokeCert } from './revoke-cert.ts'

/**
 * `application.ts` answers renewal information unsigned (RFC 9773 §4). CRLs are not part of ACME.
 */
export type SignedResource = Exclude<ResourceName, 'renewalInfo' | 'crl'>

/**
 * Endpoints for signed requests. `application.ts` answers unsigned GETs of the directory and of
 * nonces.
 */
export const ENDPOINTS: Record<SignedResource, AcmeEndpoint> = {
  directory,
  newNonce,
  newAccount,
  account,
  accountOrders,
  newOrder,
  order,
  finalize,
  newAuthz,
  authorization,
  challenge,
  certificate,
  revokeCert,
  keyChange,
}
