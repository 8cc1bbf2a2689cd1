/**
 * POST challenge: `{}` starts validation, an empty payload polls (RFC 8555 §7.5.1;
 * docs/decisions/challenge-response.md).
 */

import { z } from 'zod/v4'
import { acmeEndpoint } from './endpoint.ts'
import { attemptOf, renderChallenge } from './resources.ts'

export const challenge = acmeEndpoint({
  resource: 'challenge',
  signedBy: 'kid',
  limit: 'challenge',
  payload: { schema: z.object({}), orFetch: true },
  async handle({ signer, id, payload, visit, requestId }, { challenges, validationWaits, urls, settings }) {
    const subject = signer.account.id
    await visit?.charge(payload === undefined ? [] : [{ category: 'challenge_validation', subject }])
    const attempt = payload === undefined ? validationWaits.untilOver(id, subject) : undefined
    if (attempt) await attempt
    const { authorization, type } =
      payload === undefined
        ? await challenges.find(signer.requester, id)
        : await challenges.trigger(signer.requester, id, signer.key.thumbprint, requestId)
    const isProcessing = attemptOf(authorization, type).status === 'processing'
    return {
      status: 200,
      body: renderChallenge(authorization, type, urls, settings),
      links: [`<${urls.numbered('authorization', authorization.id)}>;rel="up"`],
      retryAfterSeconds: isProcessing ? settings.challengeRetryAfterSeconds : undefined,
    }
  },
})
