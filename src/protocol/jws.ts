/**
 * Flattened JWS of an ACME request (RFC 8555 §6.2, RFC 7515 §7.2.2): bytes to a value or a problem. Nothing is
 * verified here; `endpoint.ts` of the ACME layer fixes the order of the checks.
 */

import { decodeBase64url, isBase64url } from '../lib/base64url.ts'
import { type JsonObject, parseJsonObject } from '../lib/json.ts'
import { isJwsAlgorithm, type JwsAlgorithm } from './jws-algorithms.ts'
import { Problem } from './problem.ts'

export interface FlattenedJws {
  header: JwsHeader
  /** Undefined is the empty payload of a POST-as-GET (RFC 8555 §6.3). */
  payload: Buffer | undefined
  signature: Buffer
  /** ASCII of `protected.payload` (RFC 7515 §5.2). */
  signingInput: Buffer
}

export interface JwsHeader {
  alg: JwsAlgorithm
  nonce: string
  url: string
  /** Exactly one of the two is there. */
  key: { kid: string } | { jwk: JsonObject }
}

const MEMBERS = ['protected', 'payload', 'signature'] as const

// White space is that of JSON (RFC 8259 §2); anything unusual, such as an escape in a string, takes the slow path.
const S = '[ \\t\\n\\r]*'
const PAIR = `"(protected|payload|signature)"${S}:${S}"([A-Za-z0-9_-]*)"`
const USUAL_SPELLING = new RegExp(`^${S}\\{${S}${PAIR}${S},${S}${PAIR}${S},${S}${PAIR}${S}\\}${S}$`)

/**
 * @param allowed the algorithms of `security.allowed_algorithms`.
 * @throws Problem malformed, badSignatureAlgorithm, badNonce (a header without one)
 */
export function parseJws(body: Buffer, allowed: readonly JwsAlgorithm[]): FlattenedJws {
  const parts = decodeParts(body)
  const { nonce, ...header } = parseCommonHeader(parts.header, allowed)
  if (nonce === undefined) throw new Problem('badNonce', 'the protected header has no nonce')
  if (typeof nonce !== 'string' || nonce === '' || !isBase64url(nonce))
    throw malformed('the nonce of the protected header is not a base64url string')
  return { ...parts, header: { ...header, nonce } }
}

function decodeParts(body: Buffer) {
  const encoded = splitMembers(body)
  const headerBytes = decodeBase64url(encoded.protected)
  if (!headerBytes) throw malformed('the protected member of the JWS is not canonical base64url without padding')
  const payload = decodeBase64url(encoded.payload)
  if (!payload) throw malformed('the payload member of the JWS is not canonical base64url without padding')
  const signature = decodeBase64url(encoded.signature)
  if (!signature) throw malformed('the signature member of the JWS is not canonical base64url without padding')

  return {
    header: headerBytes,
    payload: payload.length === 0 ? undefined : payload,
    signature,
    signingInput: Buffer.from(`${encoded.protected}.${encoded.payload}`, 'latin1'),
  }
}

function splitMembers(body: Buffer): Record<(typeof MEMBERS)[number], string> {
  const match = USUAL_SPELLING.exec(body.toString('latin1'))
  if (match) {
    const [, name1, value1, name2, value2, name3, value3] = match as unknown as string[]
    const found: Record<string, string | undefined> = {
      [name1 as string]: value1,
      [name2 as string]: value2,
      [name3 as string]: value3,
    }
    const { protected: header, payload, signature } = found
    if (header !== undefined && payload !== undefined && signature !== undefined)
      return { protected: header, payload, signature }
  }
  return splitUnusual(body)
}

/** Everything the usual spelling does not match: legal JSON spelled differently, or the sentence that says what is wrong. */
function splitUnusual(body: Buffer): Record<(typeof MEMBERS)[number], string> {
  const object = parseJsonObject(body)
  if (typeof object === 'string') throw malformed(`the request body ${object}; send a flattened JWS`)
  for (const member of MEMBERS) {
    if (typeof object[member] !== 'string')
      throw malformed(
        `the JWS must have the string members protected, payload and signature; ${member} is missing or no string`,
      )
  }
  const unknown = Object.keys(object).find((member) => !(MEMBERS as readonly string[]).includes(member))
  if (unknown !== undefined)
    throw malformed('the JWS may have no members but protected, payload and signature (RFC 8555 §6.2)')
  return object as Record<(typeof MEMBERS)[number], string>
}

/** Members common to the outer and the inner header; the nonce is the outer one's matter. */
function parseCommonHeader(
  bytes: Buffer,
  allowed: readonly JwsAlgorithm[],
): Omit<JwsHeader, 'nonce'> & { nonce: unknown } {
  const header = parseJsonObject(bytes)
  if (typeof header === 'string') throw malformed(`the protected header ${header}`)
  const { alg, nonce, url, kid, jwk } = header

  if (typeof alg !== 'string') throw malformed('the protected header has no alg')
  if (header.crit !== undefined) throw malformed('the protected header has crit; no extension is understood here')
  if (header.b64 !== undefined) throw malformed('the protected header has b64; an ACME payload is always encoded')
  if (!isJwsAlgorithm(alg) || !allowed.includes(alg))
    throw new Problem('badSignatureAlgorithm', `this alg is not accepted here; use one of ${allowed.join(', ')}`, {
      algorithms: allowed,
    })
  if (typeof url !== 'string') throw malformed('the protected header has no url')
  if ((kid === undefined) === (jwk === undefined))
    throw malformed('the protected header must have exactly one of jwk and kid')
  if (kid !== undefined) {
    if (typeof kid !== 'string') throw malformed('the kid of the protected header must be an account URL')
    return { alg, nonce, url, key: { kid } }
  }
  if (typeof jwk !== 'object' || jwk === null || Array.isArray(jwk))
    throw malformed('the jwk of the protected header must be an object')
  return { alg, nonce, url, key: { jwk: jwk as JsonObject } }
}

/** The JWS inside a key change (RFC 8555 §7.3.5): signed with the jwk it carries, and without a nonce. */
export interface InnerJws {
  header: { alg: JwsAlgorithm; url: string; jwk: JsonObject }
  payload: Buffer | undefined
  signature: Buffer
  signingInput: Buffer
}

/** @throws Problem malformed, badSignatureAlgorithm */
export function parseInnerJws(body: Buffer, allowed: readonly JwsAlgorithm[]): InnerJws {
  const parts = decodeParts(body)
  const header = parseCommonHeader(parts.header, allowed)
  if (header.nonce !== undefined) throw malformed('the inner JWS of a key change has no nonce (RFC 8555 §7.3.5)')
  if (!('jwk' in header.key)) throw malformed('the inner JWS of a key change carries the new key as jwk')
  return { ...parts, header: { alg: header.alg, url: header.url, jwk: header.key.jwk } }
}

/**
 * The payload of a request that carries one.
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
