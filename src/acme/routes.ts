/** The ACME resources by name: what `protocol/urls.ts` recognises is looked up here. */

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

/** Renewal information is for anyone: `application.ts` answers it, as no signed request can be for it. So are CRLs, outside ACME. */
export type SignedResource = Exclude<ResourceName, 'renewalInfo' | 'crl'>

/** Who signs and what they send; unsigned GETs of the directory and of nonces are answered by `application.ts` itself. */
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
