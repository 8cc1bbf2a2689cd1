/** POST finalize: the CSR of a ready order (RFC 8555 §7.4). */

import { z } from 'zod/v4'
import { Problem } from '../shared/protocol/problem.ts'
import { Base64url } from './base64url-member.ts'
import { acmeEndpoint } from './endpoint.ts'
import { orderReply } from './order.ts'

export const finalize = acmeEndpoint({
  resource: 'finalize',
  signedBy: 'kid',
  payload: { schema: z.object({ csr: Base64url }) },
  async handle({ signer, id, payload, now, isGone }, context) {
    const counted = context.limits.charge([{ category: 'finalize', subject: signer.account.id }])
    if (counted) await counted
    try {
      const order = await context.finalization.finalize(signer, { orderId: id, csr: payload.csr, now, isGone })
      return orderReply(order, context)
    } catch (error) {
      if (error instanceof Problem && error.type === 'orderNotReady')
        throw new Problem(error.type, error.message, { location: context.urls.numbered('order', id) })
      throw error
    }
  },
})
