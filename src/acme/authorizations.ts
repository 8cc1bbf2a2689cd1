/** Authorizations and their challenges: authz, new-authz and challenge (RFC 8555 §7.4.1, §7.5). */

import * as z from 'zod/v4'
import type { Authorization, ChallengeAttempt } from '../domain/records.ts'
import { uuidTime } from '../shared/lib/uuid.ts'
import { type ChallengeType, challengeId, hasToken } from '../shared/protocol/challenge.ts'
import { renderIdentifier } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import type { Urls } from '../shared/protocol/urls.ts'
import { type AcmeSettings, acmeEndpoint, type DnsPersistSettings, Identifier, optional, Text } from './endpoint.ts'

/** Its state, or its deactivation (RFC 8555 §7.5.2). */
export const authorization = acmeEndpoint({
  resource: 'authorization',
  signedBy: 'kid',
  payload: { schema: z.object({ status: optional(Text) }), orFetch: true },
  async handle({ signer, id, payload, accountPath }, { ordering, validationWaits, urls, settings }) {
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
      body: renderAuthorization(found, urls, settings, accountPath),
      ...(found.status === 'pending' && { retryAfterSeconds: settings.challengeRetryAfterSeconds }),
    }
  },
})

/** Pre-authorization (RFC 8555 §7.4.1). */
export const newAuthz = acmeEndpoint({
  resource: 'newAuthz',
  signedBy: 'kid',
  // Each request writes a row, like a new order.
  limit: 'new_order',
  pausedInMaintenance: true,
  needsCurrentTerms: true,
  payload: { schema: z.object({ identifier: Identifier }) },
  async handle({ signer, payload, visit, address, accountPath, requestId, now }, { ordering, urls, settings }) {
    await visit?.charge()
    const client = { ...signer, address, requestId }
    const { authorization, isNew } = await ordering.preAuthorize(client, payload.identifier, now)
    return {
      // RFC 8555 §7.4.1 asks for 200 when the authorization existed before.
      status: isNew ? 201 : 200,
      body: renderAuthorization(authorization, urls, settings, accountPath),
      location: urls.numbered('authorization', authorization.id),
    }
  },
})

/** `{}` starts validation, an empty payload polls (RFC 8555 §7.5.1; docs/decisions/challenge-response.md). */
export const challenge = acmeEndpoint({
  resource: 'challenge',
  signedBy: 'kid',
  limit: 'challenge',
  payload: { schema: z.object({}), orFetch: true },
  async handle(
    { signer, id, payload, visit, accountPath, requestId },
    { challenges, validationWaits, urls, settings },
  ) {
    const subject = signer.account.id
    await visit?.charge(payload === undefined ? [] : [{ category: 'challenge_validation', subject }])
    const attempt = payload === undefined ? validationWaits.untilOver(id, subject) : undefined
    if (attempt) await attempt
    const { authorization, type } =
      payload === undefined
        ? await challenges.find(signer.requester, id)
        : await challenges.trigger(id, {
            requester: signer.requester,
            thumbprint: signer.key.thumbprint,
            accountPath,
            requestId,
          })
    const isProcessing = attemptOf(authorization, type).status === 'processing'
    return {
      status: 200,
      body: renderChallenge(authorization, type, urls, settings, accountPath),
      links: [`<${urls.numbered('authorization', authorization.id)}>;rel="up"`],
      retryAfterSeconds: isProcessing ? settings.challengeRetryAfterSeconds : undefined,
    }
  },
})

const json = JSON.stringify

/**
 * Clients see it so (RFC 8555 §7.1.4; docs/decisions/json-members.md), written as text like an order.
 * certbot's parser fails on a null `validated`, so members that do not apply are absent.
 */
export function renderAuthorization(
  authorization: Authorization,
  urls: Urls,
  settings: Pick<AcmeSettings, 'dnsPersist'>,
  accountPath?: string,
): string {
  const challenges = shownChallenges(authorization).map((type) =>
    renderChallenge(authorization, type, urls, settings, accountPath),
  )
  return (
    `{"status":"${authorization.status}","expires":"${renderTimestamp(authorization.expiresAt)}"` +
    `,"identifier":${renderIdentifier(authorization.identifier)}` +
    (authorization.wildcard ? ',"wildcard":true' : '') +
    `,"challenges":[${challenges.join()}]}`
  )
}

/**
 * A final authorization shows only attempted challenges, and a valid one only the fulfilled
 * challenge (RFC 8555 §7.1.4).
 */
function shownChallenges({ status, offered, attempts }: Authorization): ChallengeType[] {
  if (status === 'pending') return [...offered]
  const attempted = offered.filter((type) => attempts[type] !== undefined)
  const met = attempted.filter((type) => attempts[type]?.status === 'valid')
  if (status === 'valid' && met.length > 0) return met
  return attempted.length > 0 ? attempted : [...offered]
}

/**
 * RFC 8555 §7.1.4 does not cover an authorization that became valid without a challenge. Its
 * offered challenges appear as valid, so that clients find nothing left to do.
 */
function unattempted({ id, status, attempts }: Authorization): ShownAttempt {
  const isMet = status === 'valid' && !Object.values(attempts).some((attempt) => attempt?.status === 'valid')
  return isMet ? { status: 'valid', validated: renderTimestamp(uuidTime(id)) } : { status: 'pending' }
}

type ShownAttempt = Pick<ChallengeAttempt, 'status' | 'validated' | 'error'>

/** A challenge's state as the client sees it. */
function attemptOf(authorization: Authorization, type: ChallengeType): ShownAttempt {
  return authorization.attempts[type] ?? unattempted(authorization)
}

export function renderChallenge(
  authorization: Authorization,
  type: ChallengeType,
  urls: Urls,
  { dnsPersist }: Pick<AcmeSettings, 'dnsPersist'>,
  accountPath?: string,
): string {
  const { status, validated, error } = attemptOf(authorization, type)
  const url = urls.numbered('challenge', challengeId(authorization, type))
  return (
    `{"type":${json(type)},"url":${json(url)},"status":"${status}"` +
    (hasToken(type) ? `,"token":${json(authorization.token)}` : '') +
    (type === 'dns-persist-01' ? persistMembers(urls.account(authorization.accountId, accountPath), dnsPersist) : '') +
    (validated === undefined ? '' : `,"validated":${json(validated)}`) +
    (error ? `,"error":${json(error)}` : '') +
    '}'
  )
}

/** draft-ietf-acme-dns-persist §3.1. The first two members come from draft 01, the last from draft 02. */
function persistMembers(accountUrl: string, { issuerDomainNames, draft }: DnsPersistSettings): string {
  const names = json(issuerDomainNames)
  return (
    `,"accounturi":${json(accountUrl)},"issuer-domain-names":${names}` +
    (draft === '02' ? `,"issuerDomainNames":${names}` : '')
  )
}
