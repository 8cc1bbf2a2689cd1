/** Challenges (RFC 8555 §7.1.5, §8): the closed set of types, those that modules add to it, ids, the key authorization. */

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

export type BuiltInType = keyof typeof CHALLENGE_TYPES

declare const EXTENSION: unique symbol
/** The name that a validator module gives its own method (`ext:` in `challenges.enabled`); never one of the table's. */
export type ExtensionType = string & { readonly [EXTENSION]: true }

export type ChallengeType = BuiltInType | ExtensionType

export function isChallengeType(name: string): name is BuiltInType {
  return Object.hasOwn(CHALLENGE_TYPES, name)
}

/** A method that a module adds, with what it can validate; the table says it for the others. */
export interface ExtensionMethod {
  type: ExtensionType
  forWildcard: boolean
  forIp: boolean
}

export type EnabledMethod = BuiltInType | ExtensionMethod

export function typeOf(method: EnabledMethod): ChallengeType {
  return typeof method === 'string' ? method : method.type
}

/** The enabled types that can prove control of this identifier (RFC 8555 §8, RFC 8737 §3, RFC 8738 §4). */
export function offeredChallengeTypes(identifier: Identifier, enabled: readonly EnabledMethod[]): ChallengeType[] {
  return enabled.flatMap((method) => {
    const [type, row] = typeof method === 'string' ? [method, CHALLENGE_TYPES[method]] : [method.type, method]
    const fits = identifier.type === 'ip' ? row.forIp : row.forWildcard || !identifier.value.startsWith('*.')
    return fits ? [type] : []
  })
}

export function hasToken(type: ChallengeType): boolean {
  return !isChallengeType(type) || CHALLENGE_TYPES[type].hasToken
}

/**
 * An extension's place in the list of types its authorization offers, from 1. Its ids say this place and not a number of
 * the type: the list is written with the authorization and never changes, so an id keeps its meaning whatever the
 * configuration says by then, on every instance, and there is nothing to assign or to run out of.
 */
export type OfferedPlace = number

/** Digits that no row of the table has, for the places 1 to 10. */
const PLACE_DIGITS = '6789abcdef'
export const MAX_ENABLED_METHODS = PLACE_DIGITS.length

interface Offering {
  id: string
  offered: readonly string[]
}

/** @throws Error for an extension that this authorization does not offer */
export function challengeId({ id, offered }: Offering, type: ChallengeType): string {
  const digit = isChallengeType(type) ? CHALLENGE_TYPES[type].digit : PLACE_DIGITS[offered.indexOf(type)]
  if (digit === undefined) throw new Error(`authorization ${id} does not offer ${type}`)
  return id.slice(0, -1) + digit
}

/** `key` is a type of the table, or where in the authorization's list the type stands. */
export function parseChallengeId(id: string): { authorizationId: string; key: BuiltInType | OfferedPlace } | undefined {
  const digit = id.at(-1) as string
  const authorizationId = `${id.slice(0, -1)}0`
  for (const [type, row] of Object.entries(CHALLENGE_TYPES)) {
    if (row.digit === digit) return { authorizationId, key: type as BuiltInType }
  }
  const place = PLACE_DIGITS.indexOf(digit) + 1
  return place === 0 ? undefined : { authorizationId, key: place }
}

/** The type that an id means within its authorization; undefined when the authorization does not offer it. */
export function keyedType(
  key: BuiltInType | OfferedPlace,
  offered: readonly ChallengeType[],
): ChallengeType | undefined {
  if (typeof key === 'string') return offered.includes(key) ? key : undefined
  const type = offered[key - 1]
  // A type of the table has one id, which is not this one.
  return type === undefined || isChallengeType(type) ? undefined : type
}

/** RFC 8555 §8.1. */
export function keyAuthorization(token: string, thumbprint: string): string {
  return `${token}.${thumbprint}`
}
