/**
 * Identifiers that an operator allows to an account, and requests that need no challenge for them. Pure.
 *
 * An entry is an exact name, `*.x` for x and all below it, an IP address, or a network in CIDR notation. An exact name
 * allows no wildcard: `*.example.com` covers names that the operator of `example.com` did not list.
 */

import { parseIpAddress } from '../shared/lib/ip-address.ts'
import {
  type Identifier,
  type IdentifierType,
  type NormalForm,
  normalizeDnsName,
  normalizeIpAddress,
} from '../shared/protocol/identifier.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'

/** In normal form. */
export interface AllowedIdentifier {
  type: IdentifierType
  value: string
}

export type Allowlist = readonly AllowedIdentifier[]

/** An entry of an account's allowlist. */
export interface Grant extends AllowedIdentifier {
  id: string
}

/** An account without entries may ask for nothing. */
export function isAllowed(identifier: Identifier, allowlist: Allowlist): boolean {
  return allowlist.some((allowed) => matches(identifier, allowed))
}

/** Ids of entries that together allow the identifiers. */
export function grantsOf(identifiers: readonly Identifier[], grants: readonly Grant[]): string[] {
  return [...new Set(identifiers.flatMap((identifier) => grants.find((grant) => matches(identifier, grant))?.id ?? []))]
}

const matches = (identifier: Identifier, { type, value }: AllowedIdentifier) =>
  type === identifier.type && MATCHES[type](identifier.value, value)

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

/** Reads a pattern that an operator typed: an address or network if it looks like one, otherwise a name. */
export function parseAllowedIdentifier(
  text: string,
): { ok: true; identifier: AllowedIdentifier } | { ok: false; reason: string } {
  const type: IdentifierType = /[:/]|^[\d.]+$/.test(text.trim()) ? 'ip' : 'dns'
  const normal = normalizeAllowedIdentifier(type, text)
  return normal.ok ? { ok: true, identifier: { type, value: normal.value } } : normal
}

/* Patterns over DNS names, here and in the identifier policy. */

/** Whether the name equals the pattern, or is at or below the base of a `*.` pattern. */
export function matchesPattern(name: string, pattern: string): boolean {
  const wanted = pattern.toLowerCase().replace(/\.$/, '')
  if (!wanted.startsWith('*.')) return name === wanted
  const base = wanted.slice(2)
  return name === base || name.endsWith(`.${base}`)
}

/** Whether a pattern forbids `*.base`: it matches the base, or a name that the wildcard covers. */
export function forbidsWildcard(base: string, pattern: string): boolean {
  const top = pattern.toLowerCase().replace(/^\*\.|\.$/g, '')
  return matchesPattern(base, pattern) || top.slice(top.indexOf('.') + 1) === base
}

/** Whether a `*.` pattern covers all that `*.base` covers. An exact name allows no wildcard. */
export function allowsWildcard(base: string, pattern: string): boolean {
  return pattern.startsWith('*.') && matchesPattern(base, pattern)
}

/*
 * A credential pre-approves requests from its own networks for names of its allowlist;
 * `challenges.auto_accept` approves all.
 */

/** May approve a request. The store checks the credential's validity and allowlist when it makes the row. */
export interface Approval {
  /** The client's address in normal form; absent where everything is accepted. */
  address?: string
  record: ApprovalRecord
}

/** Evidence kept with the authorization; the store adds the credential. */
interface ApprovalRecord {
  type: 'pre-approval' | 'auto_accept'
  /** RFC 3339. */
  at: string
  result: 'valid'
  requestId: string
}

export interface ApprovalFacts {
  autoAccept: boolean
  /** Networks of the account's credential in CIDR notation; absent for most accounts. */
  networks: readonly string[] | undefined
  /** Text of the client's address, as trusted proxies give it. */
  address: string
  /** The address is a trusted proxy's. The client is then unknown, so no network approves the request. */
  isProxy: boolean
  requestId: string
  now: Date
}

/** Undefined when nothing is approved; the request then needs challenges. */
export function approvalOf(facts: ApprovalFacts): Approval | undefined {
  const { autoAccept, networks, address, isProxy, requestId, now } = facts
  if (!autoAccept && (networks === undefined || isProxy)) return undefined
  const base = { at: renderTimestamp(now), result: 'valid', requestId } as const
  if (autoAccept) return { record: { type: 'auto_accept', ...base } }
  const value = addressWithin(address, networks ?? [])
  return value === undefined ? undefined : { address: value, record: { type: 'pre-approval', ...base } }
}
