/** POST new-order (RFC 8555 §7.4; RFC 9773 §5; draft-ietf-acme-profiles). */

import { z } from 'zod/v4'
import { countedIdentifiers } from '../services/rate-limiter.ts'
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
  // RFC 9773 §5: an order that replaces a certificate is exempt; only its handler can tell whether it does.
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
  async handle({ signer, payload, visit, address, requestId, now }, { ordering, limits, urls, settings }) {
    const { identifiers, notBefore, notAfter, profile, replaces } = payload
    const order = await ordering.createOrder(
      { ...signer, address, requestId },
      {
        identifiers,
        ...(notBefore && { notBefore }),
        ...(notAfter && { notAfter }),
        ...(profile !== undefined && { profile }),
        ...(replaces !== undefined && { replaces }),
      },
      now,
      (admitted, isExempt) => {
        if (!isExempt) limits.require(countedIdentifiers(admitted))
        return visit?.charge([], isExempt)
      },
    )
    // 201 also for an order that was there already: clients expect it of new-order, and Location says which order it is.
    return { status: 201, body: renderOrder(order, urls, settings), location: urls.numbered('order', order.id) }
  },
})
