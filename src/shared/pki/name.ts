/**
 * Distinguished names: reading and writing (RFC 5280 §4.1.2.4), and their text (RFC 4514). GeneralNames of the subject
 * alternative name and of URIs in other extensions (RFC 5280 §4.2.1.6).
 */

import { isUtf8 } from 'node:buffer'
import { formatIpAddress, parseIpAddress } from '../lib/ip-address.ts'
import { contextConstructedTag, contextTag, DerError, DerReader, readSingle, TAG } from './der.ts'
import { type DerWriter, encodeDer } from './der-writer.ts'
import { ATTRIBUTE_SHORT_NAMES, COMMON_NAME } from './oids.ts'

interface Attribute {
  shortName: string
  value: string
}

/** Upper bounds in characters (RFC 5280 §A.1); other types have none. */
const MAX_CHARACTERS: Readonly<Record<string, number>> = { CN: 64, O: 64, OU: 64, L: 128, ST: 128, UID: 256 }

const OID_BY_SHORT_NAME = new Map([...ATTRIBUTE_SHORT_NAMES].map(([oid, shortName]) => [shortName, oid]))

/**
 * DER of a Name from text that begins with the last RDN (`CN=Root CA,O=Example,C=DE`).
 * A backslash escapes a character; each RDN has one attribute, with a short name as type.
 * @throws RangeError in one sentence
 */
export function encodeNameText(text: string): Buffer {
  const attributes = splitUnescaped(text).map(attributeFromText).reverse()
  if (attributes.length === 0) throw new RangeError('the name is empty')
  return encodeDer((writer) =>
    writer.sequence(() => {
      for (const { shortName, value } of attributes) {
        writer.constructed(TAG.set, () =>
          writer.sequence(() => {
            writer.oid(OID_BY_SHORT_NAME.get(shortName)!)
            writer.primitive(stringTagOf(shortName), Buffer.from(value, 'utf8'))
          }),
        )
      }
    }),
  )
}

/** RFC 5280 §A.1 and RFC 4519 §2.4 fix two types; for the others §4.1.2.4 prefers UTF8String. */
function stringTagOf(shortName: string): number {
  if (shortName === 'C') return TAG.printableString
  return shortName === 'DC' ? TAG.ia5String : TAG.utf8String
}

function attributeFromText(part: string): Attribute {
  const [, type = '', written = ''] = /^\s*([A-Za-z]+)\s*=\s*(.*?)\s*$/s.exec(part) ?? []
  const shortName = type.toUpperCase()
  if (!OID_BY_SHORT_NAME.has(shortName)) {
    const known = [...OID_BY_SHORT_NAME.keys()].join(', ')
    throw new RangeError(`"${part.trim()}" is no attribute of a name; write TYPE=value with one of ${known}`)
  }
  const value = written.replace(/\\(.)/gs, '$1')
  const longest = MAX_CHARACTERS[shortName] ?? Number.POSITIVE_INFINITY
  if (value === '' || [...value].length > longest) {
    throw new RangeError(`the ${shortName} of a name has 1 to ${longest} characters`)
  }
  if (shortName === 'C' && !/^[A-Z]{2}$/.test(value))
    throw new RangeError('the C of a name is a country code such as DE')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: IA5String is ASCII, control characters included
  if (shortName === 'DC' && !/^[\x00-\x7f]+$/.test(value)) throw new RangeError('the DC of a name is ASCII')
  return { shortName, value }
}

function splitUnescaped(text: string): string[] {
  return text.match(/(?:\\.|[^,\\])+/gs) ?? []
}

interface NameAttribute {
  oid: string
  /** Undefined when the value is not of a string type. */
  value: string | undefined
  /** DER of the value, header included. */
  valueDer: Buffer
}

/** RDNs in encoding order; nearly always of one attribute each. */
export type Name = readonly (readonly NameAttribute[])[]

/** RFC 5280 §A.1, ub-common-name. */
export const MAX_COMMON_NAME_CHARACTERS = 64

/** Each RDN is a list itself, so the product of both bounds limits the attributes of a Name. */
export const MAX_RDNS = 100
export const MAX_RDN_ATTRIBUTES = 10

export const EMPTY_NAME = Buffer.of(TAG.sequence, 0)

/** @throws DerError */
export function parseName(der: Buffer): Name {
  return readRdns(readSingle(der, TAG.sequence, 'Name'))
}

/**
 * Reads the next value of `reader` as a Name.
 * @returns its DER and the decoded Name
 * @throws DerError
 */
export function readName(reader: DerReader): { der: Buffer; name: Name } {
  const start = reader.offset
  const name = readRdns(reader.sequence())
  return { der: reader.bytes.subarray(start, reader.offset), name }
}

/** Texts of all attributes of a type, in order; values without a string type are skipped. */
export function attributeValues(name: Name, type: string): string[] {
  return name.flatMap((rdn) => rdn.flatMap(({ oid, value }) => (oid === type && value !== undefined ? [value] : [])))
}

export const commonNamesOf = (name: Name): string[] => attributeValues(name, COMMON_NAME)

/**
 * A Name of one commonName, as UTF8String (RFC 5280 §4.1.2.4; PrintableString has no `*`).
 * @throws RangeError
 */
export function encodeCommonName(commonName: string): Buffer {
  const characters = [...commonName].length
  if (characters === 0 || characters > MAX_COMMON_NAME_CHARACTERS) {
    throw new RangeError(`a commonName has 1 to ${MAX_COMMON_NAME_CHARACTERS} characters, this one ${characters}`)
  }
  return encodeDer((writer) =>
    writer.sequence(() =>
      writer.constructed(TAG.set, () =>
        writer.sequence(() => {
          writer.oid(COMMON_NAME)
          writer.primitive(TAG.utf8String, Buffer.from(commonName, 'utf8'))
        }),
      ),
    ),
  )
}

/** Text of a Name (RFC 4514 §2), last RDN first. Types without a short name appear as OID and hexadecimal DER. */
export function formatName(name: Name): string {
  return name
    .map((rdn) => rdn.map(formatAttribute).join('+'))
    .reverse()
    .join(',')
}

function formatAttribute({ oid, value, valueDer }: NameAttribute): string {
  const shortName = ATTRIBUTE_SHORT_NAMES.get(oid)
  if (shortName === undefined || value === undefined) return `${shortName ?? oid}=#${valueDer.toString('hex')}`
  return `${shortName}=${escapeValue(value)}`
}

/** RFC 4514 §2.4: specials, a leading `#` or space, a trailing space, and NUL. */
function escapeValue(value: string): string {
  return value
    .replace(/["+,;<>\\]/g, '\\$&')
    .replace(/^[ #]/, '\\$&')
    .replace(/(?<!^\\) $/, '\\ ')
    .replaceAll('\0', '\\00')
}

function readRdns(rdns: DerReader): Name {
  return rdns.list('Name', () => readRdn(rdns.enter(TAG.set)), MAX_RDNS)
}

function readRdn(set: DerReader): NameAttribute[] {
  let previous: Buffer | undefined
  const readNext = () => {
    const start = set.offset
    const attribute = readAttribute(set.sequence())
    const element = set.bytes.subarray(start, set.offset)
    // X.690 §11.6: members of a SET OF are in ascending order of their encodings.
    if (set.exact && previous && Buffer.compare(previous, element) >= 0)
      throw new DerError('RDN is not in DER order', start)
    previous = element
    return attribute
  }
  const attributes = set.list('RDN', readNext, MAX_RDN_ATTRIBUTES)
  if (set.exact && attributes.length === 0) throw new DerError('RDN is empty', set.offset)
  return attributes
}

function readAttribute(reader: DerReader): NameAttribute {
  const oid = reader.oid()
  const valueStart = reader.offset
  const tag = reader.peek()
  const valueDer = reader.any()
  reader.finish('AttributeTypeAndValue')
  const value = new DerReader(reader.bytes, valueStart, reader.offset)
  return { oid, value: isStringTag(tag) ? decodeText(tag, value.content(tag), valueStart) : undefined, valueDer }
}

function isStringTag(tag: number): boolean {
  return tag in TEXT_DECODERS
}

type TextDecode = (content: Buffer) => string | undefined

/** Decoders by string tag; undefined for octets that are no text of the type. */
const TEXT_DECODERS: Readonly<Record<number, TextDecode>> = {
  [TAG.utf8String]: decodeUtf8,
  [TAG.numericString]: (content) => decodeAscii(content, /^[0-9 ]*$/),
  // `*`, `@`, `_` and `&` are outside PrintableString but common in practice, so only ASCII is required.
  [TAG.printableString]: (content) => decodeAscii(content),
  [TAG.ia5String]: (content) => decodeAscii(content),
  [TAG.visibleString]: (content) => decodeAscii(content, /^[ -~]*$/),
  [TAG.teletexString]: (content) => content.toString('latin1'),
  [TAG.bmpString]: decodeBmp,
  [TAG.universalString]: decodeUniversal,
}

/** @returns undefined for octets that are no text of the type, or no string type */
export const textOf = (tag: number, content: Buffer): string | undefined => TEXT_DECODERS[tag]?.(content)

function decodeText(tag: number, content: Buffer, at: number): string {
  const text = textOf(tag, content)
  if (text === undefined) throw new DerError('name holds a string with characters outside its type', at)
  return text
}

function decodeUtf8(content: Buffer): string | undefined {
  return isUtf8(content) ? content.toString('utf8') : undefined
}

function decodeAscii(content: Buffer, allowed?: RegExp): string | undefined {
  for (const octet of content) if (octet > 0x7f) return undefined
  const text = content.toString('latin1')
  return allowed === undefined || allowed.test(text) ? text : undefined
}

function decodeBmp(content: Buffer): string | undefined {
  if (content.length % 2 !== 0) return undefined
  let text = ''
  for (let at = 0; at < content.length; at += 2) {
    const unit = content.readUInt16BE(at)
    // BMPString covers the basic plane only, so it has no surrogates.
    if (unit >= 0xd800 && unit < 0xe000) return undefined
    text += String.fromCharCode(unit)
  }
  return text
}

function decodeUniversal(content: Buffer): string | undefined {
  if (content.length % 4 !== 0) return undefined
  let text = ''
  for (let at = 0; at < content.length; at += 4) {
    const point = content.readUInt32BE(at)
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return undefined
    text += String.fromCodePoint(point)
  }
  return text
}

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
