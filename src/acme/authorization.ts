/** POST authz: an authorization's state, or its deactivation (RFC 8555 §7.5, §7.5.2). */

import { z } from 'zod/v4'
import { Problem } from '../shared/protocol/problem.ts'
import { acmeEndpoint } from './endpoint.ts'
import { renderAuthorization } from './resources.ts'

export const authorization = acmeEndpoint({
  resource: 'authorization',
  signedBy: 'kid',
  payload: { schema: z.object({ status: z.string().optional() }), orFetch: true },
  async handle({ signer, id, payload }, { ordering, validationWaits, urls, settings }) {
    if (payload !== undefined && payload.status !== 'deactivated')
      throw new Problem(
        'malformed',
        'the only update of an authorization is {"status": "deactivated"}; fetch it with an empty payload',
      )
    const attempt = payload === undefined ? validationWaits.untilOver(id, signer.account.id) : undefined
    if (attempt) await attempt
    const found =
      payload === undefined
        ? await ordering.findAuthorization(signer.requester, id)
        : await ordering.deactivateAuthorization(signer.requester, id)
    return {
      status: 200,
      body: renderAuthorization(found, urls, settings),
      ...(found.status === 'pending' && { retryAfterSeconds: settings.challengeRetryAfterSeconds }),
    }
  },
})
