/** Challenges (RFC 8555 §7.1.5, §8): the closed set of types, their ids and the key authorization. */

import type { Identifier } from './identifier.ts'

/**
 * One row a type. `digit` is the last hexadecimal digit of a challenge's id, whose other digits are those of its
 * authorization's id (which ends in 0): a challenge is found without a row, or an index, of its own.
 */
export const CHALLENGE_TYPES = {
  'http-01': { digit: '1', forWildcard: false, forIp: true, hasToken: true },
  'dns-01': { digit: '2', forWildcard: true, forIp: false, hasToken: true },
  'tls-alpn-01': { digit: '3', forWildcard: false, forIp: true, hasToken: true },
  'dns-persist-01': { digit: '4', forWildcard: true, forIp: false, hasToken: false },
  'dns-account-01': { digit: '5', forWildcard: true, forIp: false, hasToken: true },
} as const satisfies Record<string, { digit: string; forWildcard: boolean; forIp: boolean; hasToken: boolean }>

export type ChallengeType = keyof typeof CHALLENGE_TYPES

export function isChallengeType(name: string): name is ChallengeType {
  return Object.hasOwn(CHALLENGE_TYPES, name)
}

/** The enabled types that can prove control of this identifier (RFC 8555 §8, RFC 8737 §3, RFC 8738 §4). */
export function offeredChallengeTypes(identifier: Identifier, enabled: readonly ChallengeType[]): ChallengeType[] {
  return enabled.filter((type) => {
    const row = CHALLENGE_TYPES[type]
    if (identifier.type === 'ip') return row.forIp
    return row.forWildcard || !identifier.value.startsWith('*.')
  })
}

export function challengeId(authorizationId: string, type: ChallengeType): string {
  return authorizationId.slice(0, -1) + CHALLENGE_TYPES[type].digit
}

export function parseChallengeId(id: string): { authorizationId: string; type: ChallengeType } | undefined {
  const digit = id.at(-1)
  for (const [type, row] of Object.entries(CHALLENGE_TYPES)) {
    if (row.digit === digit) return { authorizationId: `${id.slice(0, -1)}0`, type: type as ChallengeType }
  }
  return undefined
}

/** RFC 8555 §8.1. */
export function keyAuthorization(token: string, thumbprint: string): string {
  return `${token}.${thumbprint}`
}
