/**
 * The name constraints of CA certificates (RFC 5280 §4.2.1.10): reading, writing, and which names a CA may certify.
 * Constraints stand in its certificate and in the certificates above it, and its operator sets some. A name must satisfy
 * all of them, so a list of constraints is their intersection (§6.1.4 (g)). Pure.
 *
 * Judged are DNS names, addresses and subjects. A name of another type is refused where its type is constrained
 * (§4.2.1.10: process the constraint, or reject the certificate).
 */

import { formatIpAddress, parseIpAddress } from '../lib/ip-address.ts'
import { contextConstructedTag, contextTag, DerError, type DerReader, readSingle, TAG } from './der.ts'
import type { DerWriter } from './der-writer.ts'
import { type Extension, writeExtension } from './extensions.ts'
import { type GeneralName, type GeneralNameKind, type Name, parseName, readGeneralName, writeDnsName } from './name.ts'
import { CA_EXTENSION, EMAIL_ADDRESS } from './oids.ts'

/** An address and its mask, of 4 or 16 octets each. */
export interface IpNetwork {
  address: Buffer
  mask: Buffer
}

/** Undefined where no subtree of the type is listed; an empty list holds no name. */
export interface Subtrees {
  /** Lower case. A leading dot leaves out the name itself, as Go and OpenSSL read it; empty is every name. */
  dns: readonly string[] | undefined
  ip: readonly IpNetwork[] | undefined
  directory: readonly Name[] | undefined
  /** Types that are not judged here. */
  others: ReadonlySet<GeneralNameKind>
}

export interface NameConstraints {
  permitted: Subtrees
  excluded: Subtrees
}

export const NO_SUBTREES: Subtrees = { dns: undefined, ip: undefined, directory: undefined, others: new Set() }

/** The constraints of a CA certificate, if it has any. @throws DerError */
export function nameConstraintsOf({ extensions }: { extensions: readonly Extension[] }): NameConstraints | undefined {
  const extension = extensions.find(({ oid }) => oid === CA_EXTENSION.nameConstraints)
  return extension && parseNameConstraints(extension.value)
}

/** @throws DerError, also for distances, which RFC 5280 does not use */
export function parseNameConstraints(value: Buffer): NameConstraints {
  const reader = readSingle(value, TAG.sequence, 'NameConstraints')
  const permitted = reader.enterOptional(contextConstructedTag(0))
  const excluded = reader.enterOptional(contextConstructedTag(1))
  reader.finish('NameConstraints')
  if (!permitted && !excluded) throw new DerError('NameConstraints is empty', 0)
  return { permitted: readSubtrees(permitted), excluded: readSubtrees(excluded) }
}

function readSubtrees(reader: DerReader | undefined): Subtrees {
  if (!reader) return NO_SUBTREES
  if (reader.done) throw new DerError('GeneralSubtrees is empty', reader.offset)
  const [dns, ip, directory, others]: [string[], IpNetwork[], Name[], Set<GeneralNameKind>] = [[], [], [], new Set()]
  reader.list('GeneralSubtrees', () => {
    const subtree = reader.sequence()
    if (subtree.peek() === contextTag(7)) ip.push(readNetwork(subtree))
    else {
      const { kind, value } = readGeneralName(subtree)
      if (kind === 'dNSName') dns.push(value.toLowerCase())
      else if (kind === 'directoryName') directory.push(nameOf(value))
      else others.add(kind)
    }
    // RFC 5280 §4.2.1.10: minimum is always zero, and so left out; maximum is absent.
    subtree.finish('GeneralSubtree')
  })
  const listed = <T>(bases: T[]) => (bases.length > 0 ? bases : undefined)
  return { dns: listed(dns), ip: listed(ip), directory: listed(directory), others }
}

function readNetwork(reader: DerReader): IpNetwork {
  const at = reader.offset
  const octets = reader.content(contextTag(7))
  if (octets.length !== 8 && octets.length !== 32) throw new DerError('a network has 8 or 32 octets', at)
  const half = octets.length / 2
  return { address: octets.subarray(0, half), mask: octets.subarray(half) }
}

/** @param value of a directoryName: `#` and the DER of `[4] Name` */
function nameOf(value: string): Name {
  const outer = readSingle(Buffer.from(value.slice(1), 'hex'), contextConstructedTag(4), 'directoryName')
  return parseName(outer.any())
}

/** `192.0.2.0/24` or `2001:db8::/32`; undefined for other texts. */
export function parseNetwork(text: string): IpNetwork | undefined {
  const [host = '', length = '', ...rest] = text.split('/')
  const address = parseIpAddress(host)
  const bits = Number(length)
  if (!address || rest.length > 0 || !/^\d{1,3}$/.test(length) || bits > address.length * 8) return undefined
  const mask = Buffer.from(address.map((_, index) => 0xff & (0xff00 >> Math.min(8, Math.max(0, bits - 8 * index)))))
  return { address, mask }
}

/** Critical, as RFC 5280 §4.2.1.10 wants it. */
export function writeNameConstraints(writer: DerWriter, { permitted, excluded }: NameConstraints): void {
  writeExtension(writer, CA_EXTENSION.nameConstraints, true, () =>
    writer.sequence(() => {
      writeSubtrees(writer, 0, permitted)
      writeSubtrees(writer, 1, excluded)
    }),
  )
}

function writeSubtrees(writer: DerWriter, tag: number, { dns = [], ip = [] }: Subtrees): void {
  if (dns.length + ip.length === 0) return
  writer.constructed(contextConstructedTag(tag), () => {
    for (const name of dns) writer.sequence(() => writeDnsName(writer, name))
    for (const { address, mask } of ip)
      writer.sequence(() => writer.primitive(contextTag(7), Buffer.concat([address, mask])))
  })
}

/** For people: `corp.test`, `192.0.2.0/255.255.255.0`. */
export function describeSubtrees({ dns = [], ip = [] }: Subtrees): string {
  return [...dns, ...ip.map(({ address, mask }) => `${formatIpAddress(address)}/${formatIpAddress(mask)}`)].join(', ')
}

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
