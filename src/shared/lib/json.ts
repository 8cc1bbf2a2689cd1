/** JSON objects without duplicate members (RFC 7515 §4 refuses them, RFC 8259 §4 does not). */

import { isUtf8 } from 'node:buffer'

export type JsonObject = { readonly [member: string]: unknown }

/** Why a text is refused; the sentence fits after "the payload …". */
export type JsonObjectFailure =
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
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'is not a JSON object'
  const { colons, depth } = measure(text)
  if (depth > MAX_DEPTH) return 'is nested too deeply'
  return countMembers(value) === colons ? (value as JsonObject) : 'has a duplicate member'
}

/**
 * JSON.parse keeps the last of two equal members. The value then has fewer members than the text
 * has colons.
 */
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

/**
 * Counts the colons outside strings, one for each member, and the depth. The text must be valid
 * JSON.
 */
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
