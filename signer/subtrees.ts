/** Subtrees of names that an issuer may or may not certify (RFC 5280 §4.2.1.10). Pure. */

import { BlockList } from 'node:net'
import type { GeneralName } from '../src/shared/pki/general-names.ts'
import type { PolicyConfig } from './config.ts'

interface Subtrees {
  /**
   * Lower case, without leading dot; undefined when the configuration sets no limit for this type.
   */
  dns: readonly string[] | undefined
  ip: BlockList | undefined
}

export interface NameBounds {
  permitted: Subtrees
  excluded: Subtrees
}

export function compileSubtrees({ dns, ip }: PolicyConfig['permitted']): Subtrees {
  if (!ip) return { dns, ip: undefined }
  const networks = new BlockList()
  for (const network of ip) {
    const [address, prefix] = network.split('/') as [string, string]
    networks.addSubnet(address, Number(prefix), familyOf(address))
  }
  return { dns, ip: networks }
}

const familyOf = (address: string) => (address.includes(':') ? 'ipv6' : 'ipv4')

/** The last check of a certificate: here only the names can be wrong. */
export function checkSubtrees(
  { subjectAltNames }: { subjectAltNames: readonly GeneralName[] },
  bounds: NameBounds,
): string | undefined {
  for (const { kind, value } of subjectAltNames) {
    const refusal = kind === 'dNSName' ? checkDnsName(value, bounds) : checkIpAddress(value, bounds)
    if (refusal !== undefined) return refusal
  }
  return undefined
}

function checkDnsName(value: string, { permitted, excluded }: NameBounds): string | undefined {
  const name = value.toLowerCase()
  const isWildcard = name.startsWith('*.')
  const base = isWildcard ? name.slice(2) : name
  if (excluded.dns?.some((subtree) => isWithin(base, subtree) || (isWildcard && parentOf(subtree) === base))) {
    return `${value} reaches into an excluded subtree`
  }
  if (permitted.dns && !permitted.dns.some((subtree) => isWithin(base, subtree))) {
    return `${value} is outside the permitted subtrees`
  }
  return undefined
}

const isWithin = (name: string, subtree: string): boolean =>
  name.endsWith(subtree) && (name.length === subtree.length || name[name.length - subtree.length - 1] === '.')

/** `*.example.org` covers all names one label below, including an excluded `db.example.org`. */
const parentOf = (name: string): string => name.slice(name.indexOf('.') + 1)

function checkIpAddress(value: string, { permitted, excluded }: NameBounds): string | undefined {
  const family = familyOf(value)
  if (excluded.ip?.check(value, family)) return `${value} is in an excluded network`
  if (permitted.ip && !permitted.ip.check(value, family)) return `${value} is outside the permitted networks`
  return undefined
}
