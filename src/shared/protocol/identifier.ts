/** Normal forms of identifiers (RFC 8555 §7.1.3, §9.7.7; RFC 8738). Policy is in `domain`. */

import { isIPv4, isIPv6, SocketAddress } from 'node:net'
import { domainToASCII, domainToUnicode } from 'node:url'
import { isIdna2008Label } from './idna.ts'

export const IDENTIFIER_TYPES = ['dns', 'ip'] as const
export type IdentifierType = (typeof IDENTIFIER_TYPES)[number]

/** As in the client's order: a wildcard keeps its `*.`. The value is normalised. */
export interface Identifier {
  type: IdentifierType
  value: string
}

export function isWildcard(identifier: Identifier): boolean {
  return identifier.type === 'dns' && identifier.value.startsWith('*.')
}

/** The identifier of an authorization: a wildcard without its `*.` (RFC 8555 §7.1.4). */
export function authorizedIdentifier(identifier: Identifier): Identifier {
  return isWildcard(identifier) ? { type: 'dns', value: identifier.value.slice(2) } : identifier
}

const LABEL = /^(?!-)[a-z0-9-]{1,63}(?<!-)$/
const MAX_NAME_LENGTH = 253

const PRINTABLE_ASCII = /^[\x21-\x7e]*$/
/**
 * Characters allowed into `domainToASCII`: like a URL parser, it drops line breaks and decodes
 * percent signs.
 */
const INTERNATIONALIZED = /^[A-Za-z0-9.\-\u{80}-\u{10ffff}]*$/u

export type NormalForm = { ok: true; value: string } | { ok: false; reason: string }

/**
 * Normal form of a DNS name: lower case, A-labels (IDNA 2008 through UTS 46 where reversible), no
 * trailing dot.
 * @returns the reason for a refusal, to follow the name in a sentence
 */
export function normalizeDnsName(text: string): NormalForm {
  const wildcard = text.startsWith('*.')
  const name = wildcard ? text.slice(2) : text
  if (name === '') return refused('is empty')
  if (name.endsWith('.')) return refused('ends with a dot')
  if (name.includes('*')) return refused('has a * that is not the whole leftmost label')
  const ascii = PRINTABLE_ASCII.test(name) ? name.toLowerCase() : INTERNATIONALIZED.test(name) ? toALabels(name) : ''
  if (ascii === '') return refused('is not a valid internationalized name')
  if (ascii.length + (wildcard ? 2 : 0) > MAX_NAME_LENGTH) return refused('is longer than 253 characters')
  const labels = ascii.split('.')
  if (!labels.every((label) => LABEL.test(label)))
    return refused('is not made of labels of letters, digits and inner hyphens, 1 to 63 characters each')
  const broken = labels.find((label) => label.slice(2, 4) === '--' && !isValidALabel(label))
  if (broken !== undefined) return refused('has a label with -- that is no A-label of IDNA 2008 (RFC 5891, RFC 5892)')
  // RFC 3696 §2: no top-level label is a number. URL parsers read a name that ends in one as an
  // IPv4 address, 1.2.3.0x4 too (WHATWG URL, "ends in a number").
  if (/^(?:[0-9]+|0x[0-9a-f]*)$/.test(labels.at(-1) as string))
    return refused('ends with a label that is a number; use an identifier of type ip')
  return { ok: true, value: wildcard ? `*.${ascii}` : ascii }
}

/** Empty where UTS 46 changes more than case: the order would be for another name. */
function toALabels(name: string): string {
  const ascii = domainToASCII(name)
  const asked = name.toLowerCase().normalize('NFC').split('.')
  const got = ascii.split('.')
  const isReversible =
    got.length === asked.length && got.every((label, i) => label === asked[i] || domainToUnicode(label) === asked[i])
  return isReversible ? ascii : ''
}

/**
 * Whether the label decodes and encodes back to itself (RFC 5891 §5.4).
 * `domainToASCII` alone accepts any `xn--` in Node.js 24.
 */
function isValidALabel(label: string): boolean {
  const decoded = domainToUnicode(label)
  return label.startsWith('xn--') && decoded !== label && domainToASCII(decoded) === label && isIdna2008Label(decoded)
}

/** Canonical text of an address in any spelling (RFC 8738 §3: RFC 5952 for IPv6). */
export function normalizeIpAddress(text: string): NormalForm {
  if (isIPv4(text)) return { ok: true, value: text }
  if (!isIPv6(text) || text.includes('%')) return refused('is not an IPv4 or IPv6 address')
  const canonical = new SocketAddress({ address: text, family: 'ipv6' }).address
  // IPv4-mapped ::ffff:a.b.c.d, and the deprecated ::a.b.c.d (RFC 4291 §2.5.5).
  return canonical.includes('.')
    ? refused('is an IPv6 address that stands for an IPv4 address; use that one')
    : { ok: true, value: canonical }
}

function refused(reason: string): NormalForm {
  return { ok: false, reason }
}

/** The JSON object, as text: faster than serializing an object for each. */
export function renderIdentifier({ type, value }: Identifier): string {
  return `{"type":"${type}","value":${JSON.stringify(value)}}`
}
