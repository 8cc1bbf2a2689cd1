/**
 * DER writing (X.690): one growing Buffer, written front to back.
 *
 * Constructed content is written behind a one-octet length, and moved when it exceeds 127 octets. A certificate needs
 * about ten such moves of a few hundred octets, which is cheaper than joining Buffers.
 */

import { TAG } from './der.ts'

/** Fits a leaf TBSCertificate with a 2048-bit RSA key and a few names; the Buffer doubles for larger ones. */
const INITIAL_OCTETS = 1024

/** Encoding an OID costs 1 µs. A certificate has about ten, always the same. */
const ENCODED_OIDS = new Map<string, Buffer>()
const MAX_ENCODED_OIDS = 256

export class DerWriter {
  #bytes: Buffer = Buffer.allocUnsafe(INITIAL_OCTETS)
  #length = 0

  /** The octets written so far, as a view; do not use the writer afterwards. */
  finish(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  /** Appends DER unchanged. */
  raw(der: Buffer): void {
    this.#reserve(der.length)
    this.#bytes.set(der, this.#length)
    this.#length += der.length
  }

  /** A value whose content `writeContent` writes into this writer. */
  constructed(tag: number, writeContent: () => void): void {
    this.#reserve(2)
    this.#bytes[this.#length] = tag
    this.#length += 2
    const start = this.#length
    writeContent()
    const length = this.#length - start
    if (length >= 0x80) {
      const octets = lengthOctets(length)
      this.#reserve(octets)
      this.#bytes.copyWithin(start + octets, start, this.#length)
      this.#length += octets
    }
    this.#putLength(start - 1, length)
  }

  sequence(writeContent: () => void): void {
    this.constructed(TAG.sequence, writeContent)
  }

  /** A value with the given content octets. */
  primitive(tag: number, content: Buffer): void {
    this.#reserve(content.length + 6)
    this.#bytes[this.#length] = tag
    this.#length = this.#putLength(this.#length + 1, content.length)
    this.#bytes.set(content, this.#length)
    this.#length += content.length
  }

  /** Text of characters below U+0080. @throws RangeError otherwise */
  ascii(tag: number, text: string): void {
    this.#reserve(text.length + 6)
    this.#bytes[this.#length] = tag
    let at = this.#putLength(this.#length + 1, text.length)
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i)
      if (code > 0x7f) throw new RangeError(`not ASCII: ${JSON.stringify(text)}`)
      this.#bytes[at++] = code
    }
    this.#length = at
  }

  boolean(value: boolean): void {
    this.#octets(TAG.boolean, 1, value ? 0xff : 0)
  }

  /** A small non-negative INTEGER (0 to 127). */
  smallInteger(value: number): void {
    if (!Number.isInteger(value) || value < 0 || value > 0x7f) throw new RangeError(`not a small integer: ${value}`)
    this.#octets(TAG.integer, 1, value)
  }

  /** INTEGER from a big-endian magnitude: leading zeros are dropped, a sign octet is added where needed. */
  unsignedInteger(magnitude: Buffer): void {
    let start = 0
    while (start < magnitude.length - 1 && magnitude[start] === 0) start++
    const significant = magnitude.subarray(start)
    const signed = significant.length === 0 || significant[0]! >= 0x80
    this.primitive(TAG.integer, signed ? Buffer.concat([Buffer.of(0), significant]) : significant)
  }

  octetString(content: Buffer): void {
    this.primitive(TAG.octetString, content)
  }

  /** A BIT STRING of whole octets, as keys and signatures are. */
  bitStringOctets(content: Buffer): void {
    this.constructed(TAG.bitString, () => {
      this.#reserve(1)
      this.#bytes[this.#length++] = 0
      this.raw(content)
    })
  }

  /** A BIT STRING of named bits (X.690 §11.2.2): bit 0 first, no trailing zero bits. */
  namedBits(bits: readonly number[]): void {
    const last = Math.max(-1, ...bits)
    const octets = Buffer.alloc(1 + Math.ceil((last + 1) / 8))
    if (last >= 0) octets[0] = 7 - (last % 8)
    for (const bit of bits) octets[1 + (bit >> 3)]! |= 0x80 >> (bit & 7)
    this.primitive(TAG.bitString, octets)
  }

  /** OBJECT IDENTIFIER from dotted text. @throws RangeError when the text is no OID */
  oid(text: string): void {
    let content = ENCODED_OIDS.get(text)
    if (!content) {
      content = encodeOid(text)
      if (ENCODED_OIDS.size < MAX_ENCODED_OIDS) ENCODED_OIDS.set(text, content)
    }
    this.primitive(TAG.oid, content)
  }

  #octets(tag: number, length: number, value: number): void {
    this.#reserve(3)
    this.#bytes[this.#length++] = tag
    this.#bytes[this.#length++] = length
    this.#bytes[this.#length++] = value
  }

  /** Writes a length at `at` and returns the offset behind it. The caller has reserved the room. */
  #putLength(at: number, length: number): number {
    if (length < 0x80) {
      this.#bytes[at] = length
      return at + 1
    }
    const octets = lengthOctets(length)
    this.#bytes[at] = 0x80 | octets
    return this.#bytes.writeUIntBE(length, at + 1, octets)
  }

  #reserve(more: number): void {
    const needed = this.#length + more
    if (needed <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(Math.max(needed, this.#bytes.length * 2))
    larger.set(this.#bytes.subarray(0, this.#length))
    this.#bytes = larger
  }
}

/** Tag and length of a value whose content is too long to hold and is written separately. */
export function encodeHeader(tag: number, length: number): Buffer {
  if (length < 0x80) return Buffer.of(tag, length)
  const octets = lengthOctets(length)
  const header = Buffer.of(tag, 0x80 | octets, 0, 0, 0, 0).subarray(0, 2 + octets)
  header.writeUIntBE(length, 2, octets)
  return header
}

/** Runs `write` with a fresh writer and returns what it wrote. */
export function encodeDer(write: (writer: DerWriter) => void): Buffer {
  const writer = new DerWriter()
  write(writer)
  return writer.finish()
}

/** Content octets of an OID (X.690 §8.19). @throws RangeError */
export function encodeOid(text: string): Buffer {
  if (!/^[0-2](?:\.(?:0|[1-9]\d*))+$/.test(text)) throw new RangeError(`not an object identifier: ${text}`)
  const [first, second, ...rest] = text.split('.').map(BigInt) as [bigint, bigint, ...bigint[]]
  if (first < 2n && second > 39n) throw new RangeError(`not an object identifier: ${text}`)
  return Buffer.from([first * 40n + second, ...rest].flatMap(arcOctets))
}

/** Base 128, most significant group first; all groups but the last have the top bit set. */
function arcOctets(arc: bigint): number[] {
  const groups = [Number(arc & 0x7fn)]
  for (let left = arc >> 7n; left > 0n; left >>= 7n) groups.unshift(Number(left & 0x7fn) | 0x80)
  return groups
}

function lengthOctets(length: number): number {
  if (length < 0x100) return 1
  if (length < 0x10000) return 2
  return length < 0x1000000 ? 3 : 4
}
