/**
 * Life cycles of authorizations and their challenges (RFC 8555 §7.1.6). Pure: no clock, no
 * database.
 */

import { keysOf } from '../shared/lib/keys.ts'

export type AuthorizationStatus = 'pending' | 'valid' | 'invalid' | 'deactivated' | 'expired' | 'revoked'

type AuthorizationEvent = 'validated' | 'failed' | 'deactivate' | 'expire' | 'revoke'

export const AUTHORIZATION = {
  pending: { validated: 'valid', failed: 'invalid', deactivate: 'deactivated', expire: 'expired' },
  valid: { deactivate: 'deactivated', expire: 'expired', revoke: 'revoked' },
  invalid: {},
  deactivated: {},
  expired: {},
  revoked: {},
} as const satisfies Record<AuthorizationStatus, Partial<Record<AuthorizationEvent, AuthorizationStatus>>>

export const AUTHORIZATION_STATUSES = keysOf<AuthorizationStatus>(AUTHORIZATION)

export type ChallengeStatus = 'pending' | 'processing' | 'valid' | 'invalid'

type ChallengeEvent = 'claim' | 'release' | 'validated' | 'failed'

/**
 * `claim`: a client triggers it or an instance adopts it; `release`: its instance stops
 * (ARCHITECTURE.md, life of a challenge). A first attempt without a claim may decide a pending
 * challenge.
 */
export const CHALLENGE = {
  pending: { claim: 'processing', validated: 'valid', failed: 'invalid' },
  processing: { release: 'pending', validated: 'valid', failed: 'invalid' },
  valid: {},
  invalid: {},
} as const satisfies Record<ChallengeStatus, Partial<Record<ChallengeEvent, ChallengeStatus>>>
