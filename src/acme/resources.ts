/** Account, order, authorization and challenge objects as clients see them (RFC 8555 §7.1; decisions 3, 9). */

import type { Account, Authorization, ChallengeAttempt, Order } from '../domain/records.ts'
import { uuidTime } from '../lib/uuid.ts'
import { type ChallengeType, challengeId, hasToken } from '../protocol/challenge.ts'
import type { ProblemDocument } from '../protocol/problem.ts'
import { renderTimestamp } from '../protocol/timestamp.ts'
import type { Urls } from '../protocol/urls.ts'
import type { AcmeSettings, DnsPersistSettings } from './context.ts'

/** Members that do not apply are absent, never null: certbot's parser does not survive a null `validated`. */
export interface AccountObject {
  status: string
  orders: string
  contact?: readonly string[]
  termsOfServiceAgreed?: true
  externalAccountBinding?: object
}

export function renderAccount(account: Account, urls: Urls): AccountObject {
  return {
    status: account.status,
    ...(account.contacts.length > 0 && { contact: account.contacts }),
    ...(account.termsAgreed && { termsOfServiceAgreed: true }),
    ...(account.externalAccountBinding && { externalAccountBinding: account.externalAccountBinding }),
    orders: urls.numbered('accountOrders', account.id),
  }
}

export function renderOrder(order: Order, urls: Urls, settings: Pick<AcmeSettings, 'directoryMeta'>): object {
  return {
    status: order.status,
    expires: renderTimestamp(order.expiresAt),
    identifiers: order.identifiers,
    ...(order.notBefore && { notBefore: renderTimestamp(order.notBefore) }),
    ...(order.notAfter && { notAfter: renderTimestamp(order.notAfter) }),
    // Pinned, chosen by the client or not; a server that advertises no profiles does not speak of them.
    ...(settings.directoryMeta.profiles && { profile: order.profile }),
    ...(order.replaces !== undefined && { replaces: order.replaces }),
    ...(order.error && { error: order.error }),
    authorizations: order.authorizationIds.map((id) => urls.numbered('authorization', id)),
    finalize: urls.numbered('finalize', order.id),
    ...(order.certificateId && { certificate: urls.numbered('certificate', order.certificateId) }),
  }
}

export function renderAuthorization(
  authorization: Authorization,
  urls: Urls,
  settings: Pick<AcmeSettings, 'dnsPersist'>,
): object {
  return {
    status: authorization.status,
    expires: renderTimestamp(authorization.expiresAt),
    identifier: authorization.identifier,
    ...(authorization.wildcard && { wildcard: true }),
    challenges: shownChallenges(authorization).map((type) => renderChallenge(authorization, type, urls, settings)),
  }
}

/** RFC 8555 §7.1.4: a final authorization shows only the challenges that were attempted, a valid one the one that was met. */
function shownChallenges({ status, offered, attempts }: Authorization): ChallengeType[] {
  if (status === 'pending') return [...offered]
  const attempted = offered.filter((type) => attempts[type] !== undefined)
  const met = attempted.filter((type) => attempts[type]?.status === 'valid')
  if (status === 'valid' && met.length > 0) return met
  return attempted.length > 0 ? attempted : [...offered]
}

/**
 * What is valid without a challenge has none to show (RFC 8555 §7.1.4 has no case for it). Those that were offered are shown
 * as met, so that a client which goes by its challenge finds nothing left to do.
 */
function unattempted({
  id,
  status,
  attempts,
}: Authorization): Pick<ChallengeAttempt, 'status' | 'validated' | 'error'> {
  const isMet = status === 'valid' && !Object.values(attempts).some((attempt) => attempt?.status === 'valid')
  return isMet ? { status: 'valid', validated: renderTimestamp(uuidTime(id)) } : { status: 'pending' }
}

export interface ChallengeObject {
  type: ChallengeType
  url: string
  status: string
  token?: string
  /** draft-ietf-acme-dns-persist §3.1; the first two in the names of -01, the last in that of -02. */
  accounturi?: string
  'issuer-domain-names'?: readonly string[]
  issuerDomainNames?: readonly string[]
  validated?: string
  error?: ProblemDocument
}

export function renderChallenge(
  authorization: Authorization,
  type: ChallengeType,
  urls: Urls,
  { dnsPersist }: Pick<AcmeSettings, 'dnsPersist'>,
): ChallengeObject {
  const attempt = authorization.attempts[type] ?? unattempted(authorization)
  return {
    type,
    url: urls.numbered('challenge', challengeId(authorization, type)),
    status: attempt.status,
    ...(hasToken(type) && { token: authorization.token }),
    ...(type === 'dns-persist-01' && persistMembers(authorization, urls, dnsPersist)),
    ...(attempt.validated && { validated: attempt.validated }),
    ...(attempt.error && { error: attempt.error }),
  }
}

function persistMembers({ accountId }: Authorization, urls: Urls, { issuerDomainNames, draft }: DnsPersistSettings) {
  return {
    accounturi: urls.numbered('account', accountId),
    'issuer-domain-names': issuerDomainNames,
    ...(draft === '02' && { issuerDomainNames }),
  }
}
