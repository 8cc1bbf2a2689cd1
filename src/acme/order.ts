/** POST order: an order's state (RFC 8555 §7.4). */

import type { Order } from '../domain/records.ts'
import type { AcmeContext } from './context.ts'
import { type AcmeReply, acmeEndpoint } from './endpoint.ts'
import { renderOrder } from './resources.ts'

export const order = acmeEndpoint({
  resource: 'order',
  signedBy: 'kid',
  payload: 'none',
  async handle({ signer, id }, context) {
    return orderReply(await context.ordering.findOrder(signer.requester, id), context)
  },
})

export function orderReply(found: Order, { urls, settings }: AcmeContext): AcmeReply {
  return {
    status: 200,
    body: renderOrder(found, urls, settings),
    location: urls.numbered('order', found.id),
    ...(found.status === 'processing' && { retryAfterSeconds: settings.orderRetryAfterSeconds }),
  }
}
