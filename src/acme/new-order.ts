/** POST new-order (RFC 8555 §7.4; RFC 9773 §5; draft-ietf-acme-profiles). */

import { z } from 'zod/v4'
import { parseTimestamp } from '../shared/protocol/timestamp.ts'
import { acmeEndpoint } from './endpoint.ts'
import { renderOrder } from './resources.ts'

const Timestamp = z.string().transform((text, check) => {
  const at = parseTimestamp(text)
  if (!at) check.addIssue({ code: 'custom', message: 'not an RFC 3339 date-time' })
  return at ?? z.NEVER
})

export const newOrder = acmeEndpoint({
  resource: 'newOrder',
  signedBy: 'kid',
  limit: 'new_order',
  pausedInMaintenance: true,
  needsCurrentTerms: true,
  // RFC 9773 §5 exempts renewals. Only the handler can tell whether the order is a renewal.
  mayBeExempt: (payload) => payload.includes('"replaces"'),
  payload: {
    schema: z.object({
      identifiers: z.array(z.object({ type: z.string(), value: z.string() })),
      notBefore: Timestamp.optional(),
      notAfter: Timestamp.optional(),
      profile: z.string().optional(),
      replaces: z.string().optional(),
    }),
  },
  async handle({ signer, payload, visit, address, requestId, now }, { ordering, urls, settings }) {
    const { identifiers, notBefore, notAfter, profile, replaces } = payload
    const order = await ordering.createOrder(
      { ...signer, address, requestId, visit },
      {
        identifiers,
        ...(notBefore && { notBefore }),
        ...(notAfter && { notAfter }),
        ...(profile !== undefined && { profile }),
        ...(replaces !== undefined && { replaces }),
      },
      now,
    )
    // An existing order also gets 201, because clients expect it; Location names the order.
    const location = urls.numbered('order', order.id)
    return { status: 201, body: renderOrder(order, urls, settings), location, made: { orderId: order.id } }
  },
})
