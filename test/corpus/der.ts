/** Bytes of ASN.1 written by hand, correct or not, for the tables of this folder. */

/** A value with the shortest length; `tag` is its first octet. */
export function der(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents)
  return Buffer.concat([Buffer.of(tag), lengthOf(content.length), content])
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.of(length)
  if (length < 0x100) return Buffer.of(0x81, length)
  if (length < 0x10000) return Buffer.of(0x82, length >> 8, length & 0xff)
  return Buffer.of(0x83, length >> 16, (length >> 8) & 0xff, length & 0xff)
}

export const hex = (digits: string): Buffer => Buffer.from(digits, 'hex')
export const sequence = (...contents: readonly Buffer[]): Buffer => der(0x30, ...contents)
export const set = (...contents: readonly Buffer[]): Buffer => der(0x31, ...contents)
export const octets = (content: Buffer): Buffer => der(0x04, content)
export const bits = (content: Buffer): Buffer => der(0x03, Buffer.of(0), content)
export const text = (tag: number, value: string): Buffer => der(tag, Buffer.from(value, 'latin1'))
/** `body` is the content in hexadecimal. */
export const oid = (body: string): Buffer => der(0x06, hex(body))

export const NULL = hex('0500')
export const FALSE = hex('010100')
export const TRUE = hex('0101ff')

/** Tags of string types. */
export const STRING = { utf8: 0x0c, numeric: 0x12, printable: 0x13, teletex: 0x14, ia5: 0x16, visible: 0x1a } as const

export const CN = oid('550403')
export const SAN = oid('551d11')
export const KEY_USAGE = oid('551d0f')
export const BASIC_CONSTRAINTS = oid('551d13')
export const EXTENDED_KEY_USAGE = oid('551d25')

/** `critical` is written as given: not at all, TRUE or FALSE. */
export const extension = (type: Buffer, value: Buffer, critical: Buffer = Buffer.alloc(0)): Buffer =>
  sequence(type, critical, octets(value))
export const dns = (name: string): Buffer => text(0x82, name)
export const address = (octetsInHex: string): Buffer => der(0x87, hex(octetsInHex))
