/**
 * External account binding (RFC 8555 §7.3.4): the JWS inside a new-account request. Pure; the
 * caller supplies the MAC key.
 *
 * With it the holder of a credential approves the key of the new account. Checks without a
 * credential come first. The MAC is checked before an answer reveals the credential's state.
 */

import { createHmac, timingSafeEqual } from 'node:crypto'
import { decodeBase64url, type JsonObject, parseJsonObject } from '../lib/encoding.ts'
import { type AccountKey, type AccountKeyPolicy, parseAccountKey } from './jwk.ts'
import { isAbsent, refusedMember } from './jws.ts'
import { Problem } from './problem.ts'

/** RFC 8555 §7.3.4: `alg` must name a MAC; these are the MACs of RFC 7518. */
const MAC_HASHES = { HS256: 'sha256', HS384: 'sha384', HS512: 'sha512' } as const
type MacAlgorithm = keyof typeof MAC_HASHES
export const MAC_ALGORITHMS = Object.keys(MAC_HASHES) as MacAlgorithm[]

/** A binding with valid form, url and payload, whose MAC is not checked yet. */
export interface ExternalAccountBinding {
  kid: string
  /** The account object shows it as it was received. */
  jws: { protected: string; payload: string; signature: string }
  alg: MacAlgorithm
  mac: Buffer
}

/** Values of the outer request that the binding must match. */
export interface BindingContext {
  url: string
  key: AccountKey
  accountKeys: AccountKeyPolicy
}

const MEMBERS = ['protected', 'payload', 'signature'] as const
const MAX_KID_LENGTH = 255

/** @throws Problem malformed, badSignatureAlgorithm */
export function parseExternalAccountBinding(value: unknown, context: BindingContext): ExternalAccountBinding {
  const jws = flattenedJws(value)
  const { alg, kid, url } = parseHeader(decoded(jws.protected, 'protected'))
  if (url !== context.url)
    throw malformed(`the url of its protected header is not the url of the request around it, ${context.url}`)
  const mac = decoded(jws.signature, 'signature')
  requireSameKey(decoded(jws.payload, 'payload'), context)
  return { kid, jws, alg, mac }
}

/** Whether the credential's key made the MAC. Compares in constant time. */
export function verifyBindingMac({ jws, alg, mac }: ExternalAccountBinding, macKey: Buffer): boolean {
  const expected = createHmac(MAC_HASHES[alg], macKey).update(`${jws.protected}.${jws.payload}`, 'latin1').digest()
  return mac.length === expected.length && timingSafeEqual(mac, expected)
}

function flattenedJws(value: unknown): ExternalAccountBinding['jws'] {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw malformed('it must be a flattened JWS, an object')
  const missing = MEMBERS.find((member) => typeof (value as JsonObject)[member] !== 'string')
  if (missing !== undefined) throw malformed(`it must be a flattened JWS; ${missing} is missing or no string`)
  const refused = refusedMember(value as JsonObject)
  if (refused !== undefined) throw malformed(`it must not have the member ${refused}`)
  const { protected: header, payload, signature } = value as ExternalAccountBinding['jws']
  return { protected: header, payload, signature }
}

function decoded(text: string, member: string): Buffer {
  const bytes = decodeBase64url(text)
  if (!bytes) throw malformed(`its ${member} is not canonical base64url without padding`)
  return bytes
}

function parseHeader(bytes: Buffer): { alg: MacAlgorithm; kid: string; url: string } {
  const header = parseJsonObject(bytes)
  if (typeof header === 'string') throw malformed(`its protected header ${header}`)
  const { alg, kid, url, nonce, jwk, crit, b64 } = header
  if (typeof alg !== 'string') throw malformed('its protected header has no alg')
  if (!isMacAlgorithm(alg))
    throw new Problem(
      'badSignatureAlgorithm',
      `externalAccountBinding: its alg must be a MAC; use ${MAC_ALGORITHMS.join(', ')}`,
      { algorithms: MAC_ALGORITHMS },
    )
  if (!isAbsent(nonce)) throw malformed('its protected header has a nonce, which belongs to the request around it')
  if (!isAbsent(jwk)) throw malformed('its protected header has a jwk; the key of a binding is named by kid')
  if (!isAbsent(crit) || !isAbsent(b64))
    throw malformed('its protected header has crit or b64; no extension is understood here')
  if (typeof kid !== 'string' || kid === '') throw malformed('its protected header has no kid')
  if (!isKid(kid)) throw malformed(`its kid has control characters or more than ${MAX_KID_LENGTH} characters`)
  if (typeof url !== 'string') throw malformed('its protected header has no url')
  return { alg, kid, url }
}

/** A valid key id: 1 to 255 characters without control characters. */
export function isKid(text: string): boolean {
  return text !== '' && text.length <= MAX_KID_LENGTH && !/\p{Cc}/u.test(text)
}

function isMacAlgorithm(name: string): name is MacAlgorithm {
  return Object.hasOwn(MAC_HASHES, name)
}

/** Keys are compared in canonical form, because a JWK has several spellings. */
function requireSameKey(payload: Buffer, { key, accountKeys }: BindingContext): void {
  if (payload.length === 0) throw malformed('its payload is empty; it must be the account key as a JWK')
  const jwk = parseJsonObject(payload)
  if (typeof jwk === 'string') throw malformed(`its payload ${jwk}; it must be the account key as a JWK`)
  if (thumbprintOf(jwk, accountKeys) !== key.thumbprint)
    throw malformed('its payload is not the key that signs the request around it')
}

/** Undefined for an invalid key, which cannot be the account's. */
function thumbprintOf(jwk: JsonObject, policy: AccountKeyPolicy): string | undefined {
  try {
    return parseAccountKey(jwk, policy).thumbprint
  } catch (error) {
    if (error instanceof Problem) return undefined
    throw error
  }
}

function malformed(detail: string): Problem {
  return new Problem('malformed', `externalAccountBinding: ${detail}`)
}
