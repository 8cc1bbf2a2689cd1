/**
 * Challenges (RFC 8555 §7.1.5, §8): built-in types, types added by modules, ids, the key authorization, and the names of
 * accounts in public DNS records.
 */

import { createHash, hash } from 'node:crypto'
import { decodeBase64url } from '../lib/encoding.ts'

/**
 * One row for each type. A challenge's id is its authorization's id with `digit` in place of the last digit, 0. So a
 * challenge needs neither a row nor an index of its own.
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
/** Name of a module's own method (`ext:` in `challenges.enabled`); never a name of the table. */
export type ExtensionType = string & { readonly [EXTENSION]: true }

export type ChallengeType = BuiltInType | ExtensionType

export function isChallengeType(name: string): name is BuiltInType {
  return Object.hasOwn(CHALLENGE_TYPES, name)
}

/** A method that a module adds, with the identifiers it can validate. */
export interface ExtensionMethod {
  type: ExtensionType
  forWildcard: boolean
  forIp: boolean
}

export type EnabledMethod = BuiltInType | ExtensionMethod

export function typeOf(method: EnabledMethod): ChallengeType {
  return typeof method === 'string' ? method : method.type
}

export function hasToken(type: ChallengeType): boolean {
  return !isChallengeType(type) || CHALLENGE_TYPES[type].hasToken
}

/**
 * Place of an extension, from 1, in the list of types that its authorization offers. The list is stored with the
 * authorization, so ids keep their meaning on every instance and after changes of configuration.
 */
export type OfferedPlace = number

/** Digits without a row in the table, for the places 1 to 10. */
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

/** `key` is a built-in type, or the place of the type in the authorization's list. */
export function parseChallengeId(id: string): { authorizationId: string; key: BuiltInType | OfferedPlace } | undefined {
  const digit = id.at(-1) as string
  const authorizationId = `${id.slice(0, -1)}0`
  for (const [type, row] of Object.entries(CHALLENGE_TYPES)) {
    if (row.digit === digit) return { authorizationId, key: type as BuiltInType }
  }
  const place = PLACE_DIGITS.indexOf(digit) + 1
  return place === 0 ? undefined : { authorizationId, key: place }
}

/** The type of an id within its authorization; undefined when the authorization does not offer it. */
export function keyedType(
  key: BuiltInType | OfferedPlace,
  offered: readonly ChallengeType[],
): ChallengeType | undefined {
  if (typeof key === 'string') return offered.includes(key) ? key : undefined
  const type = offered[key - 1]
  // A built-in type has its own digit, so this id is not one of its ids.
  return type === undefined || isChallengeType(type) ? undefined : type
}

/** Key authorization (RFC 8555 §8.1). */
export function keyAuthorization(token: string, thumbprint: string): string {
  return `${token}.${thumbprint}`
}

/** The only algorithm accepted: the draft makes it mandatory for both sides. */
const ALGORITHM = 'sha-256'
const DIGEST_BYTES = 32

/** Replaces the domain name in a URI that is valid in the records of every domain. */
export const ANY_DOMAIN = '*'

interface AccountHashInput {
  /** A-labels, lower case, no final dot; or ANY_DOMAIN. */
  domainName: string
  /** RFC 7638 over SHA-256, base64url: 43 characters. */
  thumbprint: string
  accountUrl: string
}

/**
 * Hashed account URIs (draft-ietf-acme-dns-persist-02 §4.1): they name an account in public DNS without revealing it.
 *
 *  <prefix>sha-256/<base64url of SHA-256(length octet || domain name || thumbprint || account URL)>
 *
 * The domain name is the record's, or `*` for one value on many domains. The thumbprint binds the account's key:
 * account URLs alone do not suffice for guessing.
 */
export function hashedAccountUri(prefix: string, { domainName, thumbprint, accountUrl }: AccountHashInput): string {
  const digest = createHash('sha256')
    // One octet is enough: a domain name has at most 253.
    .update(Uint8Array.of(domainName.length))
    .update(`${domainName}${thumbprint}${accountUrl}`, 'ascii')
    .digest('base64url')
  return `${prefix}${ALGORITHM}/${digest}`
}

/** Whether the text has the form above; the hash itself is not checked. */
export function isHashedAccountUri(prefix: string, text: string): boolean {
  const start = `${prefix}${ALGORITHM}/`
  return text.startsWith(start) && decodeBase64url(text.slice(start.length))?.length === DIGEST_BYTES
}

/** Lower case, because names are compared in lower case. */
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567'

/**
 * The label in the record name of dns-account-01 (draft-ietf-acme-dns-account-label-03 §3.2): the first ten bytes of the digest of the account's URL, in base32.
 */
export function accountLabel(accountUrl: string): string {
  const bits = hash('sha256', accountUrl, 'hex').slice(0, 20)
  // Eighty bits are sixteen characters of five bits, without padding (RFC 4648 §6).
  const value = BigInt(`0x${bits}`)
  return Array.from({ length: 16 }, (_, index) => BASE32[Number((value >> BigInt(75 - 5 * index)) & 31n)]).join('')
}
