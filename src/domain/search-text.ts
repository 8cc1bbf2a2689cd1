/** Reads what a person may have typed into the one search field. Pure. */

import { canonicalName, normalizeDnsName } from '../shared/protocol/identifier.ts'

export interface SearchText {
  /** The text without spaces around it. */
  text: string
  /** Canonical, as certificates have it; a wildcard keeps its `*.`. */
  name: string
  /** Hexadecimal digits, without colons and spaces, in lower case: the beginning of a serial number or fingerprint. */
  hex: string | undefined
  /** A UUID in lower case. */
  id: string | undefined
}

const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/
/** Fewer digits begin too many numbers. */
const HEX = /^[0-9a-f]{4,64}$/

export function readSearch(typed: string): SearchText {
  const text = typed.trim()
  const lower = text.toLowerCase()
  const digits = lower.replaceAll(/[:\s]/g, '')
  return {
    text,
    name: canonicalName(text),
    hex: HEX.test(digits) ? digits : undefined,
    id: UUID.test(lower) ? lower : undefined,
  }
}

/** Names under which things of a name are found: itself, and the wildcard that covers it. */
export function coveringNames(name: string): string[] {
  const dot = name.indexOf('.')
  return dot === -1 || name.startsWith('*.') || !normalizeDnsName(name).ok ? [name] : [name, `*${name.slice(dot)}`]
}
