/** Encodings of JWS objects, strict where strangers send them: base64url, JSON objects, and ECDSA signatures. */

import { isUtf8 } from 'node:buffer'

export function keysOf<K extends string>(table: Readonly<Record<K, unknown>>): [K, ...K[]] {
  return Object.keys(table) as [K, ...K[]]
}

/* base64url without padding (RFC 4648 §5, RFC 7515 §2): one text for one value. */

const ALPHABET = /^[A-Za-z0-9_-]*$/

/** The low bits of the last character that carry no data must be zero, by length of the tail. */
const TAIL_2 = /[AQgw]$/
const TAIL_3 = /[AEIMQUYcgkosw048]$/

export function isBase64url(text: string): boolean {
  switch (text.length % 4) {
    case 0:
      return ALPHABET.test(text)
    case 2:
      return TAIL_2.test(text) && ALPHABET.test(text)
    case 3:
      return TAIL_3.test(text) && ALPHABET.test(text)
    default:
      return false
  }
}

/** Undefined for padding, foreign characters, an impossible length or a non-canonical tail. */
export function decodeBase64url(text: string): Buffer | undefined {
  return isBase64url(text) ? Buffer.from(text, 'base64url') : undefined
}

export function encodeBase64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}

/* JSON objects without duplicate members (RFC 7515 §4 refuses them, RFC 8259 §4 does not). */

export type JsonObject = { readonly [member: string]: unknown }

export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Reads a text that we or an operator wrote. @returns undefined where it is no JSON object */
export function jsonObjectIn(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isJsonObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Why a text is refused; the sentence fits after "the payload …". */
type JsonObjectFailure =
  | 'is not UTF-8'
  | 'is not valid JSON'
  | 'is nested too deeply'
  | 'is not a JSON object'
  | 'has a duplicate member'

/** ACME objects nest at most five deep. Recursive code needs a bound well below the stack. */
const MAX_DEPTH = 32

export function parseJsonObject(bytes: Buffer): JsonObject | JsonObjectFailure {
  // Decoding turns each broken sequence into U+FFFD, so two different texts would become one.
  if (!isUtf8(bytes)) return 'is not UTF-8'
  const text = bytes.toString('utf8')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return 'is not valid JSON' // the parser's own message quotes the input
  }
  if (!isJsonObject(value)) return 'is not a JSON object'
  const { colons, depth } = measure(text)
  if (depth > MAX_DEPTH) return 'is nested too deeply'
  return countMembers(value) === colons ? value : 'has a duplicate member'
}

/** JSON.parse keeps the last of two equal members. The value then has fewer members than the text has colons. */
function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) count += countMembers(item)
    return count
  }
  // `Object.values` would allocate a list for every object, outside of optimized code.
  for (const name in value) count += 1 + countMembers((value as JsonObject)[name])
  return count
}

const QUOTE = 34
const BACKSLASH = 92
const COLON = 58
const OPEN_BRACKET = 91
const CLOSE_BRACKET = 93
const OPEN_BRACE = 123
const CLOSE_BRACE = 125

/** Counts the colons outside strings, one for each member, and the depth. The text must be valid JSON. */
function measure(text: string): { colons: number; depth: number } {
  let colons = 0
  let level = 0
  let depth = 0
  let inString = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (inString) {
      if (code === BACKSLASH) i++
      else if (code === QUOTE) inString = false
    } else if (code === QUOTE) inString = true
    else if (code === COLON) colons++
    else if (code === OPEN_BRACE || code === OPEN_BRACKET) depth = Math.max(depth, ++level)
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) level--
  }
  return { colons, depth }
}

/* ECDSA signatures: from r ‖ s (JWS, PKCS #11) to DER (X.509, OpenSSL). */

const SEQUENCE = 0x30
const INTEGER = 0x02
/** A DER length of up to 127 octets is one octet. */
const SHORT = 0x80

/**
 * Ecdsa-Sig-Value (RFC 3279 §2.2.3) of r ‖ s.
 * @param raw r and s in equal halves (RFC 7518 §3.4), each up to 66 octets
 */
export function encodeEcdsaSignature(raw: Buffer): Buffer {
  const half = raw.length / 2
  const rStart = firstOctet(raw, 0, half)
  const sStart = firstOctet(raw, half, raw.length)
  const length = integerLength(raw, rStart, half) + integerLength(raw, sStart, raw.length)
  const der = Buffer.allocUnsafe(length + (length < SHORT ? 2 : 3))
  let at = 0
  der[at++] = SEQUENCE
  if (length >= SHORT) der[at++] = 0x81
  der[at++] = length
  at = writeInteger(der, at, raw, rStart, half)
  writeInteger(der, at, raw, sStart, raw.length)
  return der
}

/** Skips leading zeros; the value zero keeps one. */
function firstOctet(raw: Buffer, start: number, end: number): number {
  let at = start
  while (at < end - 1 && raw[at] === 0) at++
  return at
}

/** An INTEGER is signed: a first octet of 128 or more needs a zero in front. */
const needsZero = (raw: Buffer, start: number) => (raw[start] as number) >= 0x80

const integerLength = (raw: Buffer, start: number, end: number) => 2 + end - start + (needsZero(raw, start) ? 1 : 0)

function writeInteger(der: Buffer, from: number, raw: Buffer, start: number, end: number): number {
  let at = from
  der[at++] = INTEGER
  der[at++] = integerLength(raw, start, end) - 2
  if (needsZero(raw, start)) der[at++] = 0
  for (let i = start; i < end; i++) der[at++] = raw[i] as number
  return at
}

/** Whether a text of it has U+0000, which no text in PostgreSQL may have. */
export function hasNul(value: unknown): boolean {
  if (typeof value === 'string') return value.includes('\0')
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return false
  return Object.entries(value).some(([name, member]) => name.includes('\0') || hasNul(member))
}
