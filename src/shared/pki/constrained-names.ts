/**
 * Which names a CA may certify, by the name constraints of its certificate, of those above it, and of
 * its operator. A name must satisfy all of them, so a list of constraints is their intersection (RFC 5280
 * §6.1.4 (g)). Pure.
 *
 * Judged are DNS names, addresses and subjects. A name of another type is refused where its type is
 * constrained (RFC 5280 §4.2.1.10: process the constraint, or reject the certificate).
 */

import { parseIpAddress } from '../lib/ip-address.ts'
import type { GeneralName } from './general-names.ts'
import type { Name } from './name.ts'
import type { IpNetwork, NameConstraints, Subtrees } from './name-constraints.ts'
import { EMAIL_ADDRESS } from './oids.ts'

/** Names of one certificate. */
interface ConstrainedNames {
  subject: Name
  subjectAltNames: readonly GeneralName[]
}

/** @returns the first name that is not admitted, with the reason */
export function checkNameConstraints(
  { subject, subjectAltNames }: ConstrainedNames,
  constraints: readonly NameConstraints[],
): string | undefined {
  for (const one of constraints) {
    for (const name of subjectAltNames) {
      const refusal = checkName(name, one)
      if (refusal !== undefined) return refusal
    }
    const refusal = checkSubject(subject, one)
    if (refusal !== undefined) return refusal
  }
  return undefined
}

function checkName({ kind, value }: GeneralName, { permitted, excluded }: NameConstraints): string | undefined {
  if (kind === 'dNSName') return checkDnsName(value, permitted.dns, excluded.dns)
  if (kind === 'iPAddress') return checkAddress(value, permitted.ip, excluded.ip)
  const isConstrained =
    permitted.others.has(kind) ||
    excluded.others.has(kind) ||
    (kind === 'directoryName' && hasDirectory(permitted, excluded))
  return isConstrained ? `names of type ${kind} are constrained and not judged here` : undefined
}

const hasDirectory = (permitted: Subtrees, excluded: Subtrees) =>
  permitted.directory !== undefined || excluded.directory !== undefined

function checkDnsName(
  value: string,
  permitted: readonly string[] | undefined,
  excluded: readonly string[] | undefined,
): string | undefined {
  const name = value.toLowerCase()
  if (excluded?.some((subtree) => isWithin(name, subtree) || isChild(subtree, name)))
    return `${value} reaches into an excluded subtree`
  if (permitted && !permitted.some((subtree) => isWithin(name, subtree)))
    return `${value} is outside the permitted subtrees`
  return undefined
}

function isWithin(name: string, subtree: string): boolean {
  if (subtree === '' || name === subtree) return true
  return name.endsWith(subtree.startsWith('.') ? subtree : `.${subtree}`)
}

/** `*.example.org` covers all names one label below, including an excluded `db.example.org`. */
const isChild = (subtree: string, wildcard: string): boolean =>
  wildcard.startsWith('*.') && subtree.slice(subtree.indexOf('.') + 1) === wildcard.slice(2)

function checkAddress(
  value: string,
  permitted: readonly IpNetwork[] | undefined,
  excluded: readonly IpNetwork[] | undefined,
): string | undefined {
  const address = parseIpAddress(value)
  if (!address) return `${value} is no address`
  if (excluded?.some((network) => isInNetwork(address, network))) return `${value} is in an excluded network`
  if (permitted && !permitted.some((network) => isInNetwork(address, network)))
    return `${value} is outside the permitted networks`
  return undefined
}

const isInNetwork = (octets: Buffer, { address, mask }: IpNetwork): boolean =>
  octets.length === address.length &&
  octets.every((octet, index) => ((octet ^ (address[index] ?? 0)) & (mask[index] ?? 0)) === 0)

/** RFC 5280 §4.2.1.10: constraints of directory names are for subjects that are not empty. */
function checkSubject(subject: Name, { permitted, excluded }: NameConstraints): string | undefined {
  if (subject.length === 0) return undefined
  if (excluded.directory?.some((base) => isBelow(subject, base))) return 'the subject is in an excluded subtree'
  if (permitted.directory && !permitted.directory.some((base) => isBelow(subject, base)))
    return 'the subject is outside the permitted subtrees of directory names'
  const isMailConstrained = permitted.others.has('rfc822Name') || excluded.others.has('rfc822Name')
  if (isMailConstrained && subject.flat().some(({ oid }) => oid === EMAIL_ADDRESS))
    return 'names of type rfc822Name are constrained and not judged here'
  return undefined
}

const isBelow = (name: Name, base: Name): boolean =>
  base.every((rdn, index) => comparable(rdn) === comparable(name[index] ?? []))

/** RFC 5280 §7.1: case and runs of spaces do not count. */
function comparable(rdn: Name[number]): string {
  const text = (value: string) => value.normalize('NFKC').toLowerCase().trim().replace(/ +/g, ' ')
  return JSON.stringify(
    rdn.map(({ oid, value, valueDer }) => [oid, value === undefined ? valueDer.toString('hex') : text(value)]).sort(),
  )
}

/** Whether any DNS name or address is left. Excluded parts that only together cover a subtree are not added up. */
export function admitsAnyName(constraints: readonly NameConstraints[]): boolean {
  const [dns, ip] = [constraints.map(sidesOf('dns')), constraints.map(sidesOf('ip'))]
  return (
    ['', ...dns.flatMap(({ permitted = [] }) => permitted)].some((base) => isLeft(base, dns, isWithin)) ||
    [...EVERY_ADDRESS, ...ip.flatMap(({ permitted = [] }) => permitted)].some((base) => isLeft(base, ip, isSubnet))
  )
}

interface Sides<T> {
  permitted: readonly T[] | undefined
  excluded: readonly T[] | undefined
}

const sidesOf =
  <K extends 'dns' | 'ip'>(type: K) =>
  ({ permitted, excluded }: NameConstraints) => ({ permitted: permitted[type], excluded: excluded[type] })

const isLeft = <T>(base: T, all: readonly Sides<T>[], isPartOf: (inner: T, outer: T) => boolean): boolean =>
  all.every(
    ({ permitted, excluded }) =>
      (permitted?.some((outer) => isPartOf(base, outer)) ?? true) && !excluded?.some((outer) => isPartOf(base, outer)),
  )

const EVERY_ADDRESS: readonly IpNetwork[] = [4, 16].map((octets) => ({
  address: Buffer.alloc(octets),
  mask: Buffer.alloc(octets),
}))

const isSubnet = (inner: IpNetwork, outer: IpNetwork): boolean =>
  isInNetwork(inner.address, outer) && outer.mask.every((octet, index) => (octet & ~(inner.mask[index] ?? 0)) === 0)
