/** Life cycle of authorizations, and the statuses of their challenges (RFC 8555 §7.1.6). Pure: no clock, no database. */

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

export const AUTHORIZATION_STATUSES = Object.keys(AUTHORIZATION) as AuthorizationStatus[]

export type ChallengeStatus = 'pending' | 'processing' | 'valid' | 'invalid'

/** Statuses in which `event` is allowed: the compare-and-swap guard the store puts in its WHERE. */
export function authorizationStatusesAllowing(event: AuthorizationEvent): AuthorizationStatus[] {
  return AUTHORIZATION_STATUSES.filter((status) => event in AUTHORIZATION[status])
}

/** Statuses that nothing changes any more. */
export const FINAL_AUTHORIZATION_STATUSES = AUTHORIZATION_STATUSES.filter(
  (status) => Object.keys(AUTHORIZATION[status]).length === 0,
)
