/** Normal forms of identifiers (RFC 8555 §7.1.3, §9.7.7; RFC 8738). Policy is in `domain`. */

import { isIPv4, isIPv6, SocketAddress } from 'node:net'
import { domainToASCII, domainToUnicode } from 'node:url'
import { formatIpAddress, parseIpAddress } from '../lib/ip-address.ts'

/** Letters, digits and marks (§2.1); case and compatibility forms do not survive UTS 46. */
const LETTER_DIGIT = /^[\p{Ll}\p{Lo}\p{Lm}\p{Mn}\p{Mc}\p{Nd}-]$/u
/** Exceptions that are valid (§2.6) beside letters and digits. */
const VALID = /^[\u06fd\u06fe\u0f0b\u3007]$/
/** Exceptions that are disallowed (§2.6), and old Hangul Jamo (§2.9). */
const DISALLOWED = /[\u0640\u07fa\u302e\u302f\u3031-\u3035\u303b\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]/
/** Joiners, whose context UTS 46 checks as well (Appendix A.1, A.2). */
const JOINER = /^[\u200c\u200d]$/
/** Points with a contextual rule where the rule holds (Appendix A.3 to A.6). */
const IN_CONTEXT = /(?<=l)\u00b7(?=l)|\u0375(?=\p{Script=Greek})|(?<=\p{Script=Hebrew})[\u05f3\u05f4]/gu
/** Appendix A.7 */
const MIDDLE_DOT = '\u30fb'
const JAPANESE = /[\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Han}]/u

/** @param label decoded from an A-label, so that it is in NFC and lower case */
function isIdna2008Label(label: string): boolean {
  if (DISALLOWED.test(label)) return false
  if (label.includes(MIDDLE_DOT) && !JAPANESE.test(label)) return false
  // Arabic-Indic and extended Arabic-Indic digits do not mix (Appendix A.8, A.9).
  if (/[\u0660-\u0669]/.test(label) && /[\u06f0-\u06f9]/.test(label)) return false
  const rest = label.replaceAll(MIDDLE_DOT, '').replace(IN_CONTEXT, '')
  return [...rest].every((point) => LETTER_DIGIT.test(point) || VALID.test(point) || JOINER.test(point))
}

export const IDENTIFIER_TYPES = ['dns', 'ip'] as const
export type IdentifierType = (typeof IDENTIFIER_TYPES)[number]

/** The client's order says it: a wildcard keeps its `*.`. The value is normalised. */
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
/** Characters allowed into `domainToASCII`: like a URL parser, it drops line breaks and decodes percent signs. */
const INTERNATIONALIZED = /^[A-Za-z0-9.\-\u{80}-\u{10ffff}]*$/u

export type NormalForm = { ok: true; value: string } | { ok: false; reason: string }

/**
 * Normal form of a DNS name: lower case, A-labels (IDNA 2008 through UTS 46 where reversible), no trailing dot.
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
    ? refused('is an IPv6 address that maps an IPv4 address; use the IPv4 address')
    : { ok: true, value: canonical }
}

/**
 * The one spelling in which names of certificates are stored, searched and compared: of DNS names, addresses, mail addresses
 * and whatever else a certificate calls its subject. Every question for a name goes through here (docs/decisions/identifiers.md).
 */
export function canonicalName(text: string): string {
  const line = text
    .replace(/\s+/g, ' ')
    .replace(/[\p{Cc}\p{Cs}]/gu, '\ufffd')
    .trim()
  const octets = parseIpAddress(line)
  if (octets) return formatIpAddress(octets).replace(/^::ffff:(?=\d+\.)/, '')
  // People write `.example.com` and `example.com.`; a name of a person or firm may end in a dot.
  const bare = line.includes(' ') ? line : line.replace(/^\.|\.$/g, '')
  const dns = normalizeDnsName(bare)
  if (dns.ok) return dns.value
  const [, local, host] = /^([^@\s/]+)@([^@\s/]+)$/.exec(bare) ?? []
  return local && host ? `${local.toLowerCase()}@${canonicalName(host)}` : visible(bare.toLowerCase().normalize('NFC'))
}

/** Invisible characters of a common name could not be typed; in a DNS name UTS 46 decides about them. */
const visible = (text: string) => text.replace(/\p{Cf}/gu, '\ufffd')

/** The spellings in which a client may have asked for a refused name, in lower case. @param name canonical */
export const spellingsOf = (name: string): string[] => [...new Set([name, `${name}.`, domainToUnicode(name) || name])]

function refused(reason: string): NormalForm {
  return { ok: false, reason }
}

/** The JSON object, as text: faster than serializing an object for each. */
export function renderIdentifier({ type, value }: Identifier): string {
  return `{"type":"${type}","value":${JSON.stringify(value)}}`
}
