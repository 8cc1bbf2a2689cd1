/**
 * Identifiers that an operator allows to an account: an exact name, `*.x` for x and all below it,
 * an IP address, or a network in CIDR notation. Pure.
 *
 * An exact name allows no wildcard: `example.com` does not allow `*.example.com`, which covers
 * names that the operator did not list.
 */

import { parseIpAddress } from '../shared/pki/ip-address.ts'
import {
  type Identifier,
  type IdentifierType,
  type NormalForm,
  normalizeDnsName,
  normalizeIpAddress,
} from '../shared/protocol/identifier.ts'
import { matchesPattern } from './name-pattern.ts'

/** In normal form. */
export interface AllowedIdentifier {
  type: IdentifierType
  value: string
}

export type Allowlist = readonly AllowedIdentifier[]

/** An account without entries may ask for nothing. */
export function isAllowed(identifier: Identifier, allowlist: Allowlist): boolean {
  return allowlist.some(({ type, value }) => type === identifier.type && MATCHES[type](identifier.value, value))
}

/**
 * The address in normal form, if it lies in one of the networks.
 * @param address text of the client's address, as trusted proxies give it
 * @param networks in CIDR notation
 */
export function addressWithin(address: string, networks: readonly string[]): string | undefined {
  // A proxy that listens only on IPv6 writes IPv4 addresses this way.
  const value = address.replace(/^::ffff:(?=\d+\.)/i, '')
  const patterns = networks.map((network): AllowedIdentifier => ({ type: 'ip', value: network }))
  return isAllowed({ type: 'ip', value }, patterns) ? value : undefined
}

const MATCHES: Record<IdentifierType, (value: string, pattern: string) => boolean> = {
  dns: (name, pattern) =>
    name === pattern || (pattern.startsWith('*.') && matchesPattern(name.replace(/^\*\./, ''), pattern)),
  ip: (address, pattern) => {
    const [network = '', prefix] = pattern.split('/')
    return prefix === undefined ? address === network : liesIn(address, network, Number(prefix))
  },
}

function liesIn(address: string, network: string, prefix: number): boolean {
  const [octets, base] = [parseIpAddress(address), parseIpAddress(network)]
  if (!octets || !base || octets.length !== base.length) return false
  return octets.every((octet, index) => ((octet ^ (base[index] as number)) & maskOf(index, prefix)) === 0)
}

/** The octet at `index` of the mask with `prefix` leading ones. */
function maskOf(index: number, prefix: number): number {
  const ones = Math.max(0, Math.min(8, prefix - 8 * index))
  return (0xff00 >> ones) & 0xff
}

/** @returns the normal form, or a reason for refusal that continues a sentence begun by the text */
export function normalizeAllowedIdentifier(type: IdentifierType, text: string): NormalForm {
  const value = text.trim()
  // People copy names with the dot of the root (RFC 1034 §3.1); an order may not have it.
  if (type === 'dns') return normalizeDnsName(value.replace(/(?<=[^.])\.$/, ''))
  const [address = '', prefix, ...rest] = value.split('/')
  const normal = normalizeIpAddress(address)
  if (!normal.ok || prefix === undefined) return normal
  const bits = normal.value.includes(':') ? 128 : 32
  if (rest.length > 0 || !/^(?:0|[1-9]\d{0,2})$/.test(prefix) || Number(prefix) > bits)
    return { ok: false, reason: `is not a network; its prefix length must be 0 to ${bits}` }
  const octets = parseIpAddress(normal.value) as Buffer
  if (octets.some((octet, index) => (octet & ~maskOf(index, Number(prefix)) & 0xff) !== 0))
    return { ok: false, reason: 'is not a network; it has bits set behind its prefix' }
  return { ok: true, value: `${normal.value}/${prefix}` }
}

/**
 * Reads a pattern that an operator typed: an address or network if it looks like one, otherwise a
 * name.
 */
export function parseAllowedIdentifier(
  text: string,
): { ok: true; identifier: AllowedIdentifier } | { ok: false; reason: string } {
  const type: IdentifierType = /[:/]|^[\d.]+$/.test(text.trim()) ? 'ip' : 'dns'
  const normal = normalizeAllowedIdentifier(type, text)
  return normal.ok ? { ok: true, identifier: { type, value: normal.value } } : normal
}
