/**
 * The name constraints of CA certificates (RFC 5280 §4.2.1.10): reading and writing. `constrained-names.ts` applies
 * them.
 */

import { formatIpAddress, parseIpAddress } from '../lib/ip-address.ts'
import { contextConstructedTag, contextTag, DerError, type DerReader, readSingle, TAG } from './der.ts'
import type { DerWriter } from './der-writer.ts'
import { type Extension, writeExtension } from './extensions.ts'
import { type GeneralNameKind, readGeneralName, writeDnsName } from './general-names.ts'
import { type Name, parseName } from './name.ts'
import { CA_EXTENSION } from './oids.ts'

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
