/** The ACME resources by name: what `protocol/urls.ts` recognises is looked up here. */

import type { ResourceName } from '../protocol/urls.ts'
import { account } from './account.ts'
import { accountOrders } from './account-orders.ts'
import { authorization } from './authorization.ts'
import { certificate } from './certificate.ts'
import { challenge } from './challenge.ts'
import type { AcmeEndpoint } from './endpoint.ts'
import { finalize } from './finalize.ts'
import { keyChange } from './key-change.ts'
import { newAccount } from './new-account.ts'
import { newAuthz } from './new-authz.ts'
import { newOrder } from './new-order.ts'
import { order } from './order.ts'
import { revokeCert } from './revoke-cert.ts'

/** Directory, nonce and renewal information are plain GETs, served by `application.ts` itself. */
export const ENDPOINTS: Record<Exclude<ResourceName, 'directory' | 'newNonce' | 'renewalInfo'>, AcmeEndpoint> = {
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
