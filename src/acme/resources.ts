/**
 * Account, order, authorization and challenge objects as clients see them (RFC 8555 §7.1;
 * docs/decisions/json-members.md).
 *
 * The frequent ones are written as text: building an object and serializing it takes three times as
 * long. Members that do not apply are absent, never null: certbot's parser fails on a null
 * `validated`.
 */

import type { Account, Authorization, ChallengeAttempt, Order } from '../domain/records.ts'
import { uuidTime } from '../shared/lib/uuid.ts'
import { type ChallengeType, challengeId, hasToken } from '../shared/protocol/challenge.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import type { Urls } from '../shared/protocol/urls.ts'
import type { AcmeSettings, DnsPersistSettings } from './context.ts'

const json = (value: unknown): string => JSON.stringify(value)

const renderIdentifier = ({ type, value }: Identifier): string => `{"type":"${type}","value":${json(value)}}`

export function renderAccount(account: Account, urls: Urls): string {
  return json({
    status: account.status,
    contact: account.contacts.length > 0 ? account.contacts : undefined,
    termsOfServiceAgreed: account.termsAgreed || undefined,
    externalAccountBinding: account.externalAccountBinding,
    orders: urls.numbered('accountOrders', account.id),
  })
}

export function renderOrder(order: Order, urls: Urls, settings: Pick<AcmeSettings, 'directoryMeta'>): string {
  const { identifiers, authorizationIds, notBefore, notAfter, replaces, error, certificateId } = order
  const authorizations = authorizationIds.map((id) => json(urls.numbered('authorization', id)))
  return (
    `{"status":"${order.status}","expires":"${renderTimestamp(order.expiresAt)}"` +
    `,"identifiers":[${identifiers.map(renderIdentifier).join()}]` +
    (notBefore ? `,"notBefore":"${renderTimestamp(notBefore)}"` : '') +
    (notAfter ? `,"notAfter":"${renderTimestamp(notAfter)}"` : '') +
    // The profile is always shown, even if the server chose it. A server without profiles omits it.
    (settings.directoryMeta.profiles ? `,"profile":${json(order.profile)}` : '') +
    (replaces === undefined ? '' : `,"replaces":${json(replaces)}`) +
    (error ? `,"error":${json(error)}` : '') +
    `,"authorizations":[${authorizations.join()}],"finalize":${json(urls.numbered('finalize', order.id))}` +
    (certificateId === undefined ? '' : `,"certificate":${json(urls.numbered('certificate', certificateId))}`) +
    '}'
  )
}

export function renderAuthorization(
  authorization: Authorization,
  urls: Urls,
  settings: Pick<AcmeSettings, 'dnsPersist'>,
): string {
  const challenges = shownChallenges(authorization).map((type) => renderChallenge(authorization, type, urls, settings))
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
export function attemptOf(authorization: Authorization, type: ChallengeType): ShownAttempt {
  return authorization.attempts[type] ?? unattempted(authorization)
}

export function renderChallenge(
  authorization: Authorization,
  type: ChallengeType,
  urls: Urls,
  { dnsPersist }: Pick<AcmeSettings, 'dnsPersist'>,
): string {
  const { status, validated, error } = attemptOf(authorization, type)
  const url = urls.numbered('challenge', challengeId(authorization, type))
  return (
    `{"type":${json(type)},"url":${json(url)},"status":"${status}"` +
    (hasToken(type) ? `,"token":${json(authorization.token)}` : '') +
    (type === 'dns-persist-01' ? persistMembers(authorization, urls, dnsPersist) : '') +
    (validated === undefined ? '' : `,"validated":${json(validated)}`) +
    (error ? `,"error":${json(error)}` : '') +
    '}'
  )
}

/**
 * draft-ietf-acme-dns-persist §3.1. The first two members come from draft 01, the last from draft
 * 02.
 */
function persistMembers(
  { accountId }: Authorization,
  urls: Urls,
  { issuerDomainNames, draft }: DnsPersistSettings,
): string {
  const names = json(issuerDomainNames)
  return (
    `,"accounturi":${json(urls.numbered('account', accountId))},"issuer-domain-names":${names}` +
    (draft === '02' ? `,"issuerDomainNames":${names}` : '')
  )
}
