/** JSON objects without duplicate members (RFC 8259 §4 leaves them open; JWS refuses them, RFC 7515 §4). */

export type JsonObject = { readonly [member: string]: unknown }

/** Why a text is not such an object; the sentence fits after "the payload …". */
export type JsonObjectFailure = 'is not valid JSON' | 'is not a JSON object' | 'has a duplicate member'

export function parseJsonObject(text: string): JsonObject | JsonObjectFailure {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return 'is not valid JSON' // the parser's own message quotes the input
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'is not a JSON object'
  return countMembers(value) === countColons(text) ? (value as JsonObject) : 'has a duplicate member'
}

/** JSON.parse keeps the last of two equal members, so the value then holds fewer members than the text has colons. */
function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) count += countMembers(item)
    return count
  }
  for (const member of Object.values(value)) count += 1 + countMembers(member)
  return count
}

const QUOTE = 34
const BACKSLASH = 92
const COLON = 58

/** Colons outside strings of a text that is known to be JSON: one for each member. */
function countColons(text: string): number {
  let count = 0
  let inString = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (inString) {
      if (code === BACKSLASH) i++
      else if (code === QUOTE) inString = false
    } else if (code === QUOTE) inString = true
    else if (code === COLON) count++
  }
  return count
}
