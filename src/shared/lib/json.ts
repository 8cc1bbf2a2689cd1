/** JSON objects without duplicate members (RFC 8259 §4 leaves them open; JWS refuses them, RFC 7515 §4). */

import { isUtf8 } from 'node:buffer'

export type JsonObject = { readonly [member: string]: unknown }

/** Why a text is not such an object; the sentence fits after "the payload …". */
export type JsonObjectFailure =
  | 'is not UTF-8'
  | 'is not valid JSON'
  | 'is nested too deeply'
  | 'is not a JSON object'
  | 'has a duplicate member'

/** No object of ACME goes deeper than five; what walks a value by recursion needs a bound well below its stack. */
const MAX_DEPTH = 32

export function parseJsonObject(bytes: Buffer): JsonObject | JsonObjectFailure {
  // Decoding would put U+FFFD in place of every broken sequence, and two different texts would become one.
  if (!isUtf8(bytes)) return 'is not UTF-8'
  const text = bytes.toString('utf8')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return 'is not valid JSON' // the parser's own message quotes the input
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'is not a JSON object'
  const { colons, depth } = measure(text)
  if (depth > MAX_DEPTH) return 'is nested too deeply'
  return countMembers(value) === colons ? (value as JsonObject) : 'has a duplicate member'
}

/** JSON.parse keeps the last of two equal members, so the value then holds fewer members than the text has colons. */
function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) count += countMembers(item)
    return count
  }
  // A list of the values would be made outside of optimized code, for every object anew.
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

/** Of a text that is known to be JSON: the colons outside strings, one for each member, and how deep it is nested. */
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
