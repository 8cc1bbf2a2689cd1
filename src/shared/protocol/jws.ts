/**
 * The flattened JWS of an ACME request (RFC 8555 §6.2, RFC 7515 §7.2.2): its form, its signature algorithms (RFC 7518
 * §3, RFC 8037), and the check of a signature. `gate.ts` of the ACME layer orders the checks.
 */

import { constants, type KeyObject, type VerifyKeyObjectInput, verify } from 'node:crypto'
import {
  decodeBase64url,
  encodeEcdsaSignature,
  isBase64url,
  type JsonObject,
  keysOf,
  parseJsonObject,
} from '../lib/encoding.ts'
import { Problem } from './problem.ts'

export interface FlattenedJws {
  header: JwsHeader
  /** Undefined for the empty payload of a POST-as-GET (RFC 8555 §6.3). */
  payload: Buffer | undefined
  signature: Buffer
  /** ASCII of `protected.payload` (RFC 7515 §5.2). */
  signingInput: Buffer
}

interface JwsHeader {
  alg: JwsAlgorithm
  nonce: string
  url: string
  /** Exactly one of `kid` and `jwk`. */
  key: { kid: string } | { jwk: JsonObject }
}

const MEMBERS = ['protected', 'payload', 'signature'] as const

type Encoded = Record<(typeof MEMBERS)[number], string>

/**
 * @param allowed the algorithms of `security.allowed_algorithms`
 * @throws Problem malformed, badSignatureAlgorithm, badNonce (a header without one)
 */
export function parseJws(body: Buffer, allowed: readonly JwsAlgorithm[]): FlattenedJws {
  const { header, payload, signature, signingInput } = decodeParts(body)
  const { alg, url, key, nonce } = parseCommonHeader(header, allowed)
  if (nonce === undefined) throw new Problem('badNonce', 'the protected header has no nonce')
  if (typeof nonce !== 'string' || nonce === '' || !isBase64url(nonce))
    throw malformed('the nonce of the protected header is not a base64url string')
  return { header: { alg, nonce, url, key }, payload, signature, signingInput }
}

interface DecodedParts {
  header: Buffer
  payload: Buffer | undefined
  signature: Buffer
  signingInput: Buffer
}

function decodeParts(body: Buffer): DecodedParts {
  const usual = usualMembers(body.toString('latin1'))
  const decoded = usual && decodeMembers(usual)
  if (decoded && typeof decoded === 'object') return decoded
  const unusual = decodeMembers(splitUnusual(body))
  if (typeof unusual === 'object') return unusual
  throw malformed(`the ${unusual} member of the JWS is not canonical base64url without padding`)
}

/** @returns the name of a member that is not canonical base64url, if there is one */
function decodeMembers(encoded: Encoded): DecodedParts | keyof Encoded {
  const header = decodeBase64url(encoded.protected)
  if (!header) return 'protected'
  const payload = decodeBase64url(encoded.payload)
  if (!payload) return 'payload'
  const signature = decodeBase64url(encoded.signature)
  if (!signature) return 'signature'
  return {
    header,
    payload: payload.length === 0 ? undefined : payload,
    signature,
    signingInput: Buffer.from(`${encoded.protected}.${encoded.payload}`, 'latin1'),
  }
}

/**
 * The three members in any order, with white space between; the decoder checks their strings.
 * Undefined sends the body to the JSON parser, which accepts unusual spellings and explains errors.
 */
function usualMembers(text: string): Encoded | undefined {
  let header: string | undefined
  let payload: string | undefined
  let signature: string | undefined
  let at = afterToken(text, 0, OPEN_BRACE)
  for (let member = 0; member < 3; member++) {
    const nameAt = afterToken(text, at, QUOTE)
    const nameEnd = text.indexOf('"', nameAt)
    const valueAt = afterToken(text, afterToken(text, nameEnd + 1, COLON), QUOTE)
    const valueEnd = text.indexOf('"', valueAt)
    at = afterToken(text, valueEnd + 1, member < 2 ? COMMA : CLOSE_BRACE)
    if (nameEnd < 0 || valueEnd < 0 || at > text.length) return undefined
    const name = text.slice(nameAt, nameEnd)
    const value = text.slice(valueAt, valueEnd)
    if (name === 'protected') header = value
    else if (name === 'payload') payload = value
    else if (name === 'signature') signature = value
  }
  if (header === undefined || payload === undefined || signature === undefined) return undefined
  return afterSpace(text, at) === text.length ? { protected: header, payload, signature } : undefined
}

const QUOTE = 34
const COMMA = 44
const COLON = 58
const OPEN_BRACE = 123
const CLOSE_BRACE = 125

/**
 * The offset behind this character and the white space before it. Beyond the end of the text if
 * another character is there.
 */
function afterToken(text: string, at: number, code: number): number {
  const found = afterSpace(text, at)
  return text.charCodeAt(found) === code ? found + 1 : text.length + 1
}

/** The offset behind white space (RFC 8259 §2). */
function afterSpace(text: string, at: number): number {
  let next = at
  for (;;) {
    const code = text.charCodeAt(next)
    if (code !== 32 && code !== 9 && code !== 10 && code !== 13) return next
    next++
  }
}

/** Parses legal JSON in an unusual spelling. @returns the members @throws Problem malformed */
function splitUnusual(body: Buffer): Encoded {
  const object = parseJsonObject(body)
  if (typeof object === 'string') throw malformed(`the request body ${object}; send a flattened JWS`)
  for (const member of MEMBERS) {
    if (typeof object[member] !== 'string')
      throw malformed(
        `the JWS must have the string members protected, payload and signature; ${member} is missing or no string`,
      )
  }
  const refused = refusedMember(object)
  if (refused !== undefined) throw malformed(`the JWS must not have the member ${refused} (RFC 8555 §6.2)`)
  return object as Encoded
}

/** RFC 8555 §6.2 forbids these two members. Other unknown members are ignored (RFC 7515 §7.2.1). */
export function refusedMember(jws: JsonObject): 'header' | 'signatures' | undefined {
  if (!isAbsent(jws.header)) return 'header'
  return isAbsent(jws.signatures) ? undefined : 'signatures'
}

/** Some clients write null for an optional member that they leave out, and PHP's LEClient an empty string. */
export function isAbsent(value: unknown): value is undefined | null | '' {
  return value === undefined || value === null || value === ''
}

/** Reads the members common to the outer and the inner header; only the outer one has a nonce. */
function parseCommonHeader(
  bytes: Buffer,
  allowed: readonly JwsAlgorithm[],
): Omit<JwsHeader, 'nonce'> & { nonce: unknown } {
  const header = parseJsonObject(bytes)
  if (typeof header === 'string') throw malformed(`the protected header ${header}`)
  const { alg, nonce, url, kid, jwk } = header

  if (typeof alg !== 'string') throw malformed('the protected header has no alg')
  if (!isAbsent(header.crit)) throw malformed('the protected header has crit; no extension is understood here')
  if (!isAbsent(header.b64)) throw malformed('the protected header has b64; an ACME payload is always encoded')
  if (!isJwsAlgorithm(alg) || !allowed.includes(alg)) throw refusedAlgorithm(alg, allowed)
  if (typeof url !== 'string') throw malformed('the protected header has no url')
  if (isAbsent(kid) === isAbsent(jwk)) throw malformed('the protected header must have exactly one of jwk and kid')
  if (!isAbsent(kid)) {
    if (typeof kid !== 'string') throw malformed('the kid of the protected header must be an account URL')
    return { alg, nonce, url, key: { kid } }
  }
  if (typeof jwk !== 'object' || jwk === null || Array.isArray(jwk))
    throw malformed('the jwk of the protected header must be an object')
  return { alg, nonce, url, key: { jwk: jwk as JsonObject } }
}

/** Names the key of the configuration that would allow it, for the reader of the client's log. */
function refusedAlgorithm(alg: string, allowed: readonly JwsAlgorithm[]): Problem {
  const detail = `this alg is not accepted here; use one of ${allowed.join(', ')}`
  if (!isJwsAlgorithm(alg)) return new Problem('badSignatureAlgorithm', detail, { algorithms: allowed })
  const key = 'security.allowed_algorithms'
  return new Problem('badSignatureAlgorithm', `${detail}, or have ${alg} added to ${key}`, { algorithms: allowed, key })
}

/**
 * The JWS inside a key change (RFC 8555 §7.3.5), signed with its own jwk. It should have no nonce, but le_acme2
 * sends one and no check needs it absent.
 */
export interface InnerJws {
  header: { alg: JwsAlgorithm; url: string; jwk: JsonObject }
  payload: Buffer | undefined
  signature: Buffer
  signingInput: Buffer
}

/** @throws Problem malformed, badSignatureAlgorithm */
export function parseInnerJws(body: Buffer, allowed: readonly JwsAlgorithm[]): InnerJws {
  const { header: encoded, payload, signature, signingInput } = decodeParts(body)
  const header = parseCommonHeader(encoded, allowed)
  if (!('jwk' in header.key)) throw malformed('the inner JWS of a key change carries the new key as jwk')
  return { header: { alg: header.alg, url: header.url, jwk: header.key.jwk }, payload, signature, signingInput }
}

/**
 * Payload of a request that requires one.
 * @throws Problem malformed
 */
export function parsePayload(payload: Buffer | undefined): JsonObject {
  if (payload === undefined) throw malformed('this resource needs a payload; an empty one only fetches')
  const object = parseJsonObject(payload)
  if (typeof object === 'string') throw malformed(`the payload ${object}`)
  return object
}

function malformed(detail: string): Problem {
  return new Problem('malformed', detail)
}

/** One row for each algorithm. */
interface AlgorithmRow {
  /** Digest name of node:crypto; null where the algorithm hashes by itself. */
  hash: string | null
  /** Exact length of the signature, where the algorithm fixes it (RFC 7518 §3.4: R and S padded). */
  signatureBytes?: number
  /**
   * Converts to the signature form that node:crypto takes without options. In Node.js 24 a key among options costs two
   * internal exceptions: 50 µs of 85 for an ES256 verification.
   */
  encode?: (signature: Buffer) => Buffer
  /** Key input for node:crypto where the key alone is not enough. */
  input?: (key: KeyObject) => VerifyKeyObjectInput
}

const pss = (key: KeyObject) => ({ key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 })

export const JWS_ALGORITHMS = {
  ES256: { hash: 'sha256', signatureBytes: 64, encode: encodeEcdsaSignature },
  ES384: { hash: 'sha384', signatureBytes: 96, encode: encodeEcdsaSignature },
  ES512: { hash: 'sha512', signatureBytes: 132, encode: encodeEcdsaSignature },
  RS256: { hash: 'sha256' },
  RS384: { hash: 'sha384' },
  RS512: { hash: 'sha512' },
  PS256: { hash: 'sha256', input: pss },
  EdDSA: { hash: null, signatureBytes: 64 },
} as const satisfies Record<string, AlgorithmRow>

export type JwsAlgorithm = keyof typeof JWS_ALGORITHMS

export const EVERY_ALGORITHM = keysOf(JWS_ALGORITHMS)

function isJwsAlgorithm(name: string): name is JwsAlgorithm {
  return Object.hasOwn(JWS_ALGORITHMS, name)
}

/** Says so of a signature whose length cannot be right. Most libraries write ECDSA signatures in DER. */
export function wrongLength(algorithm: JwsAlgorithm, signature: Buffer): string | undefined {
  const { signatureBytes, encode }: AlgorithmRow = JWS_ALGORITHMS[algorithm]
  if (signatureBytes === undefined || signature.length === signatureBytes) return undefined
  const der = encode && signature[0] === 0x30 && signature.length > signatureBytes ? ', which are DER' : ''
  const parts = encode ? `: R and S of ${signatureBytes / 2} octets each (RFC 7518 §3.4)` : ' (RFC 8037 §3.1)'
  return `the ${algorithm} signature has ${signature.length} octets${der}; it must have ${signatureBytes}${parts}`
}

/**
 * Synchronous on purpose: ES256 takes 60 µs here, but 68 µs of CPU and a hop through the thread pool. The caller has
 * checked that `algorithm` fits the key.
 */
export function verifySignature(algorithm: JwsAlgorithm, key: KeyObject, data: Buffer, signature: Buffer): boolean {
  const row: AlgorithmRow = JWS_ALGORITHMS[algorithm]
  if (row.signatureBytes !== undefined && signature.length !== row.signatureBytes) return false
  const encoded = row.encode ? row.encode(signature) : signature
  return verify(row.hash, data, row.input ? row.input(key) : key, encoded)
}
