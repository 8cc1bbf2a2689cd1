/**
 * Strict DER reading (X.690 §8, §10, §11), the only place that parses untrusted ASN.1 bytes.
 *
 * A reader is a cursor over a Buffer: callers name the expected type, and values are views, not
 * copies. It accepts only canonical DER: definite minimal lengths, minimal INTEGERs, TRUE as 0xff,
 * zero padding bits, no trailing bytes. So two different inputs never read as the same value.
 *
 * A reader with `exact` false is for what strangers have signed: readers of structures then take the
 * forms that Go and OpenSSL take, too (test/corpus).
 */

export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  enumerated: 0x0a,
  utf8String: 0x0c,
  numericString: 0x12,
  printableString: 0x13,
  teletexString: 0x14,
  ia5String: 0x16,
  utcTime: 0x17,
  generalizedTime: 0x18,
  visibleString: 0x1a,
  universalString: 0x1c,
  bmpString: 0x1e,
  sequence: 0x30,
  set: 0x31,
} as const

/** Tag octet of `[number]` with primitive content (implicit tagging of a primitive type). */
export const contextTag = (number: number): number => 0x80 | number
/** Tag octet of `[number]` with constructed content (explicit tagging, or implicit tagging of a constructed type). */
export const contextConstructedTag = (number: number): number => 0xa0 | number

/** X.509 structures nest about ten levels; the bound protects the stack against hostile input. */
const MAX_DEPTH = 24

/** Far more than `2.25.<128-bit UUID>` needs; keeps the text form of an OID cheap to compute. */
const MAX_OID_OCTETS = 64

/** For names, extensions, policies and so on; an order has no more names (`max_identifiers_per_order`). */
export const MAX_LIST_LENGTH = 1000

/** A fault of the bytes, as a message for a client. `offset` counts from the start of the Buffer. */
export class DerError extends Error {
  readonly offset: number

  constructor(message: string, offset: number) {
    super(`${message} (at byte ${offset})`)
    this.name = 'DerError'
    this.offset = offset
  }
}

/** `bytes` views the octets of a BIT STRING after the count of unused bits. */
interface BitString {
  unusedBits: number
  bytes: Buffer
}

/** Cursor over one run of DER values. Every method throws DerError and nothing else. */
export class DerReader {
  readonly bytes: Buffer
  readonly end: number
  readonly depth: number
  /** Whether the structure has to be as its RFC writes it, because these bytes will be signed. */
  readonly exact: boolean
  offset: number

  constructor(bytes: Buffer, offset = 0, end: number = bytes.length, depth = 0, exact = true) {
    this.bytes = bytes
    this.offset = offset
    this.end = end
    this.depth = depth
    this.exact = exact
  }

  get done(): boolean {
    return this.offset === this.end
  }

  /** Tag octet of the next value; -1 at the end. */
  peek(): number {
    return this.offset < this.end ? this.bytes[this.offset]! : -1
  }

  /** Returns a reader over the next value's content and moves past the value. */
  enter(tag: number): DerReader {
    if (this.depth === MAX_DEPTH) throw new DerError('values are nested too deep', this.offset)
    const end = this.#open(tag)
    const child = new DerReader(this.bytes, this.offset, end, this.depth + 1, this.exact)
    this.offset = end
    return child
  }

  sequence(): DerReader {
    return this.enter(TAG.sequence)
  }

  /** Enters the next value if it has this tag (OPTIONAL and DEFAULT members). */
  enterOptional(tag: number): DerReader | undefined {
    return this.peek() === tag ? this.enter(tag) : undefined
  }

  /** Content octets of a primitive value. */
  content(tag: number): Buffer {
    const end = this.#open(tag)
    const start = this.offset
    this.offset = end
    return this.bytes.subarray(start, end)
  }

  /**
   * The whole next value of any type. In exact bytes its inner structure is checked as far as tags tell; in others it
   * is not checked, because no code reads it.
   */
  any(): Buffer {
    const start = this.offset
    if (this.exact) this.#checkAny()
    else this.#passOver()
    return this.bytes.subarray(start, this.offset)
  }

  /** Reads all values up to the end with `readItem`; `what` names the list in errors. */
  list<T>(what: string, readItem: (reader: DerReader) => T, max = MAX_LIST_LENGTH): T[] {
    const items: T[] = []
    while (!this.done) {
      if (items.length === max) throw new DerError(`${what} has more than ${max} values`, this.offset)
      items.push(readItem(this))
    }
    return items
  }

  boolean(): boolean {
    const at = this.offset
    const end = this.#open(TAG.boolean)
    const value = this.bytes[this.offset]!
    if (end - this.offset !== 1 || (value !== 0 && value !== 0xff)) {
      throw new DerError('BOOLEAN must be 00 or FF', at)
    }
    this.offset = end
    return value === 0xff
  }

  /** Content octets of an INTEGER: two's complement, minimal. */
  integer(): Buffer {
    const end = this.#openInteger()
    const start = this.offset
    this.offset = end
    return this.bytes.subarray(start, end)
  }

  /** Big-endian magnitude of an INTEGER that must not be negative; zero is one zero octet. */
  unsignedInteger(): Buffer {
    const at = this.offset
    const content = this.integer()
    if (content[0]! >= 0x80) throw new DerError('INTEGER must not be negative', at)
    return content[0] === 0 && content.length > 1 ? content.subarray(1) : content
  }

  /** An INTEGER between 0 and 2^31 - 1. */
  smallInteger(): number {
    const at = this.offset
    const end = this.#openInteger()
    if (this.bytes[this.offset]! >= 0x80) throw new DerError('INTEGER must not be negative', at)
    if (end - this.offset > 4) throw new DerError('INTEGER is too large', at)
    const value = this.bytes.readUIntBE(this.offset, end - this.offset)
    this.offset = end
    return value
  }

  null(): void {
    const at = this.offset
    if (this.content(TAG.null).length !== 0) throw new DerError('NULL must be empty', at)
  }

  octetString(): Buffer {
    return this.content(TAG.octetString)
  }

  bitString(): BitString {
    const at = this.offset
    const end = this.#open(TAG.bitString)
    const start = this.offset + 1
    const unusedBits = this.bytes[this.offset]!
    if (start > end || unusedBits > 7 || (start === end && unusedBits !== 0)) {
      throw new DerError('BIT STRING has a wrong count of unused bits', at)
    }
    if (start < end && (this.bytes[end - 1]! & ((1 << unusedBits) - 1)) !== 0) {
      throw new DerError('BIT STRING has padding bits that are not zero', at)
    }
    this.offset = end
    return { unusedBits, bytes: this.bytes.subarray(start, end) }
  }

  /** A BIT STRING that wraps whole octets, as keys and signatures do. */
  bitStringOctets(): Buffer {
    const at = this.offset
    const { unusedBits, bytes } = this.bitString()
    if (unusedBits !== 0) throw new DerError('BIT STRING must hold whole octets', at)
    return bytes
  }

  /** An OBJECT IDENTIFIER in dotted text. */
  oid(): string {
    const end = this.#open(TAG.oid)
    const text = recallOid(this.bytes, this.offset, end)
    this.offset = end
    return text
  }

  /** Refuses bytes after the last expected value; `what` names the structure in errors. */
  finish(what: string): void {
    if (this.offset !== this.end) throw new DerError(`${what} has unexpected content at its end`, this.offset)
  }

  /** Reads tag and length and moves to the content. @returns where the content ends */
  #open(tag: number): number {
    const at = this.offset
    if (at >= this.end) throw new DerError(`a value with tag ${hexOctet(tag)} is missing`, at)
    const found = this.bytes[at]!
    if (found !== tag) throw new DerError(`expected tag ${hexOctet(tag)}, found ${hexOctet(found)}`, at)
    return this.#length(at + 1)
  }

  /** Like `#open`, for a minimal INTEGER. */
  #openInteger(): number {
    const at = this.offset
    const end = this.#open(TAG.integer)
    const start = this.offset
    if (start === end) throw new DerError('INTEGER is empty', at)
    if (end - start > 1) {
      const first = this.bytes[start]!
      const padded = this.bytes[start + 1]! < 0x80 ? first === 0 : first === 0xff
      if (padded) throw new DerError('INTEGER is not minimal', at)
    }
    return end
  }

  #passOver(): void {
    let at = this.offset
    if (at >= this.end) throw new DerError('a value is missing', at)
    // X.690 §8.1.2.4: a tag number above 30 is in the octets behind.
    if ((this.bytes[at++]! & 0x1f) === 0x1f) while (at < this.end && this.bytes[at++]! >= 0x80);
    this.offset = this.#length(at)
  }

  #length(at: number): number {
    if (at >= this.end) throw new DerError('length is missing', at)
    let offset = at
    let length = this.bytes[offset++]!
    if (length >= 0x80) {
      const octets = length & 0x7f
      if (octets === 0) throw new DerError('indefinite length is not DER', at)
      if (octets > 4) throw new DerError('length is too large', at)
      if (octets > this.end - offset) throw new DerError('length is cut off', at)
      length = this.bytes.readUIntBE(offset, octets)
      offset += octets
      if (length < 0x80 || length < 2 ** (8 * (octets - 1))) throw new DerError('length is not minimal', at)
    }
    if (length > this.end - offset) throw new DerError('value runs past the end of what holds it', at)
    this.offset = offset
    return offset + length
  }

  #checkAny(): void {
    const at = this.offset
    const tag = this.peek()
    if (tag === -1) throw new DerError('a value is missing', at)
    if ((tag & 0x1f) === 0x1f) throw new DerError('tag numbers above 30 are not used here', at)
    const isConstructed = (tag & 0x20) !== 0
    const isUniversal = tag < 0x40
    // X.690 §10.2: of the universal types in use, only SEQUENCE and SET are constructed.
    if (isUniversal && isConstructed !== ((tag | 0x20) === TAG.sequence || (tag | 0x20) === TAG.set)) {
      throw new DerError(`tag ${hexOctet(tag)} is not DER`, at)
    }
    if (isConstructed) {
      const inner = this.enter(tag)
      while (!inner.done) inner.#checkAny()
      return
    }
    if (tag === TAG.boolean) this.boolean()
    else if (tag === TAG.integer) this.integer()
    else if (tag === TAG.bitString) this.bitString()
    else if (tag === TAG.null) this.null()
    else if (tag === TAG.oid) this.oid()
    else if (tag === 0) throw new DerError('tag 00 is not DER', at)
    else this.content(tag)
  }
}

/** A reader over one value that must fill the whole Buffer. */
export function readSingle(bytes: Buffer, tag: number, what: string, exact = true): DerReader {
  const outer = new DerReader(bytes, 0, bytes.length, 0, exact)
  const inner = outer.enter(tag)
  outer.finish(what)
  return inner
}

/**
 * OIDs read before, in slots chosen by their octets; a certificate has a dozen, mostly the same.
 * Comparing octets takes a tenth of the time of making the text.
 */
const RECENT_OIDS: ({ content: Buffer; text: string } | undefined)[] = new Array(256).fill(undefined)

function recallOid(bytes: Buffer, start: number, end: number): string {
  const slot = (31 * (end - start) + 7 * bytes[end - 1]! + bytes[end - 2]!) & 0xff
  const recent = RECENT_OIDS[slot]
  if (recent && holds(bytes, start, end, recent.content)) return recent.text
  const text = decodeOid(bytes, start, end)
  RECENT_OIDS[slot] = { content: Buffer.from(bytes.subarray(start, end)), text }
  return text
}

function holds(bytes: Buffer, start: number, end: number, content: Buffer): boolean {
  if (content.length !== end - start) return false
  for (let i = 0; i < content.length; i++) if (bytes[start + i] !== content[i]) return false
  return true
}

/** Dotted text of the OID content between two offsets (X.690 §8.19): minimal arcs, the last one complete. */
function decodeOid(bytes: Buffer, start: number, end: number): string {
  if (start === end) throw new DerError('OBJECT IDENTIFIER is empty', start)
  if (end - start > MAX_OID_OCTETS) throw new DerError('OBJECT IDENTIFIER is too long', start)
  if (bytes[end - 1]! >= 0x80) throw new DerError('OBJECT IDENTIFIER is cut off', start)
  let text = ''
  let arcStart = start
  for (let at = start; at < end; at++) {
    if (bytes[at]! >= 0x80) continue
    if (bytes[arcStart] === 0x80) throw new DerError('OBJECT IDENTIFIER is not minimal', arcStart)
    const arc = decodeArc(bytes, arcStart, at)
    if (text === '') {
      // X.690 §8.19.4: the first two arcs share the number 40 * first + second; first is 0, 1 or 2.
      const first = arc < 80 ? Math.floor(Number(arc) / 40) : 2
      text = `${first}.${typeof arc === 'bigint' ? arc - 80n : arc - 40 * first}`
    } else {
      text += `.${arc}`
    }
    arcStart = at + 1
  }
  return text
}

function decodeArc(bytes: Buffer, first: number, last: number): number | bigint {
  // Seven octets hold 49 bits, exact in a double; longer arcs (UUIDs) are rare.
  if (last - first < 7) {
    let value = 0
    for (let at = first; at <= last; at++) value = value * 128 + (bytes[at]! & 0x7f)
    return value
  }
  let value = 0n
  for (let at = first; at <= last; at++) value = (value << 7n) | BigInt(bytes[at]! & 0x7f)
  return value
}

const hexOctet = (octet: number): string => octet.toString(16).padStart(2, '0')
