/** GeneralNames of the subject alternative name and of URIs in other extensions (RFC 5280 §4.2.1.6). */

import { formatIpAddress, parseIpAddress } from '../lib/ip-address.ts'
import { contextConstructedTag, contextTag, DerError, type DerReader } from './der.ts'
import type { DerWriter } from './der-writer.ts'

/** Kinds by context tag number, in the words of RFC 5280. */
const GENERAL_NAME_KINDS = [
  'otherName',
  'rfc822Name',
  'dNSName',
  'x400Address',
  'directoryName',
  'ediPartyName',
  'uniformResourceIdentifier',
  'iPAddress',
  'registeredID',
] as const
export type GeneralNameKind = (typeof GENERAL_NAME_KINDS)[number]

/**
 * `value` is unchanged text for dNSName, rfc822Name and URI, and canonical text for iPAddress.
 * Other kinds have `#` and hexadecimal DER, so that equal values mean equal names.
 */
export interface GeneralName {
  kind: GeneralNameKind
  value: string
}

const RFC822_NAME = contextTag(1)
const DNS_NAME = contextTag(2)
const URI = contextTag(6)
const IP_ADDRESS = contextTag(7)
const OTHER_TAGS: ReadonlyMap<number, GeneralNameKind> = new Map([
  [contextConstructedTag(0), 'otherName'],
  [contextConstructedTag(3), 'x400Address'],
  [contextConstructedTag(4), 'directoryName'],
  [contextConstructedTag(5), 'ediPartyName'],
  [contextTag(8), 'registeredID'],
])

/** The names up to the end of `reader`; at least one (SIZE 1..MAX). @throws DerError */
export function readGeneralNames(reader: DerReader): GeneralName[] {
  if (reader.done) throw new DerError('GeneralNames is empty', reader.offset)
  return reader.list('GeneralNames', readGeneralName)
}

/** @throws DerError */
export function readGeneralName(reader: DerReader): GeneralName {
  const tag = reader.peek()
  if (tag === DNS_NAME) return { kind: 'dNSName', value: readIa5(reader, tag) }
  if (tag === IP_ADDRESS) return { kind: 'iPAddress', value: readIp(reader) }
  if (tag === RFC822_NAME) return { kind: 'rfc822Name', value: readIa5(reader, tag) }
  if (tag === URI) return { kind: 'uniformResourceIdentifier', value: readIa5(reader, tag) }
  const kind = OTHER_TAGS.get(tag)
  if (kind === undefined) throw new DerError('GeneralName is of an unknown kind', reader.offset)
  return { kind, value: `#${reader.any().toString('hex')}` }
}

export function valuesOfKind(names: readonly GeneralName[], kind: GeneralNameKind): string[] {
  const values: string[] = []
  for (const name of names) if (name.kind === kind) values.push(name.value)
  return values
}

/** @throws RangeError when the name is not ASCII */
export function writeDnsName(writer: DerWriter, name: string): void {
  writer.ascii(DNS_NAME, name)
}

/** @throws RangeError when the text is no IP address */
export function writeIpAddress(writer: DerWriter, text: string): void {
  const octets = parseIpAddress(text)
  if (!octets) throw new RangeError(`not an IP address: ${JSON.stringify(text)}`)
  writer.primitive(IP_ADDRESS, octets)
}

/** @throws RangeError when the URI is not ASCII */
export function writeUri(writer: DerWriter, uri: string): void {
  writer.ascii(URI, uri)
}

function readIa5(reader: DerReader, tag: number): string {
  const at = reader.offset
  const content = reader.content(tag)
  for (const octet of content) {
    // Control characters do not belong in names, addresses or URIs; NUL has fooled verifiers before.
    if (octet < 0x20 || octet > 0x7e) throw new DerError('GeneralName holds a character that is not visible ASCII', at)
  }
  return content.toString('latin1')
}

function readIp(reader: DerReader): string {
  const at = reader.offset
  const octets = reader.content(IP_ADDRESS)
  if (octets.length !== 4 && octets.length !== 16) throw new DerError('iPAddress must have 4 or 16 octets', at)
  return formatIpAddress(octets)
}
