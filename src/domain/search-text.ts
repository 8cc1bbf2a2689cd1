/** What a person may have typed into the one search field. Pure. */

import { normalizeDnsName, normalizeIpAddress } from '../shared/protocol/identifier.ts'

export interface SearchText {
  /** As typed, without spaces around it. */
  text: string
  /** A DNS name in A-labels, which keeps its `*.`, or an address; undefined where it is neither. */
  name: string | undefined
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
    name: nameIn(text),
    hex: HEX.test(digits) ? digits : undefined,
    id: UUID.test(lower) ? lower : undefined,
  }
}

/** Also from `.example.com` and `example.com.`, as people type them. */
function nameIn(text: string): string | undefined {
  const address = normalizeIpAddress(text)
  if (address.ok) return address.value
  const name = normalizeDnsName(text.replace(/^\.|\.$/g, ''))
  return name.ok ? name.value : undefined
}

/** Names under which things of a name are found: itself, and the wildcard that covers it. */
export function coveringNames(name: string): string[] {
  const dot = name.indexOf('.')
  return dot === -1 || name.startsWith('*.') || normalizeIpAddress(name).ok ? [name] : [name, `*${name.slice(dot)}`]
}
