/** POST finalize: the CSR of a ready order (RFC 8555 §7.4). */

import { z } from 'zod/v4'
import type { Order } from '../domain/records.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { Base64url } from './base64url-member.ts'
import { acmeEndpoint } from './endpoint.ts'
import { orderReply } from './order.ts'

export const finalize = acmeEndpoint({
  resource: 'finalize',
  signedBy: 'kid',
  payload: { schema: z.object({ csr: Base64url }) },
  async handle({ signer, id, payload, now }, context) {
    const read = () => context.ordering.findOrder(signer.requester, id)
    const settle = (order: Order) => context.issuance.finalize(signer, order, payload.csr, now, read)
    try {
      const order = await settle(await read())
      // What its checks went by has changed meanwhile: once more, by what is true now.
      return orderReply(order.status === 'ready' ? await settle(order) : order, context)
    } catch (error) {
      if (error instanceof Problem && error.type === 'orderNotReady')
        throw new Problem(error.type, error.message, { location: context.urls.numbered('order', id) })
      throw error
    }
  },
})
