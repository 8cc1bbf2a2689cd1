/** POST new-authz: pre-authorization (RFC 8555 §7.4.1). */

import { z } from 'zod/v4'
import { acmeEndpoint } from './endpoint.ts'
import { renderAuthorization } from './resources.ts'

export const newAuthz = acmeEndpoint({
  resource: 'newAuthz',
  signedBy: 'kid',
  // Each request writes a row, like a new order.
  limit: 'new_order',
  pausedInMaintenance: true,
  needsCurrentTerms: true,
  payload: { schema: z.object({ identifier: z.object({ type: z.string(), value: z.string() }) }) },
  async handle({ signer, payload, visit, address, requestId, now }, { ordering, urls, settings }) {
    await visit?.charge()
    const client = { ...signer, address, requestId }
    const { authorization, isNew } = await ordering.preAuthorize(client, payload.identifier, now)
    return {
      // RFC 8555 §7.4.1 asks for 200 when the authorization existed before.
      status: isNew ? 201 : 200,
      body: renderAuthorization(authorization, urls, settings),
      location: urls.numbered('authorization', authorization.id),
    }
  },
})
