/**
 * Converts values of hot statements: parameters to PostgreSQL's binary form, columns from text.
 *
 * The type of a parameter stands in the statement (`$1::uuid[]`). Binary is cheaper for both sides:
 * a DER is copied instead of spelled in hexadecimal, and the server parses no array literals.
 */

import pg from './pg.ts'

/** The type of a parameter cannot hold its value; only one command of a batch is at fault. */
export class UnfitValue extends Error {}

/** Grows as needed and is reused for each group, so that a warm one allocates nothing. */
export class WireWriter {
  bytes = Buffer.allocUnsafe(16_384)
  at = 0

  reserve(count: number): void {
    if (this.at + count <= this.bytes.length) return
    const larger = Buffer.allocUnsafe(Math.max(2 * this.bytes.length, this.at + count))
    this.bytes.copy(larger, 0, 0, this.at)
    this.bytes = larger
  }

  int16(value: number): void {
    this.reserve(2)
    this.at = this.bytes.writeInt16BE(value, this.at)
  }

  int32(value: number): void {
    this.reserve(4)
    this.at = this.bytes.writeInt32BE(value, this.at)
  }

  /** Fills in the length of a message or value that is complete. */
  setInt32(at: number, value: number): void {
    this.bytes.writeInt32BE(value, at)
  }

  raw(bytes: Buffer): void {
    this.reserve(bytes.length)
    this.bytes.set(bytes, this.at)
    this.at += bytes.length
  }

  utf8(text: string): void {
    this.reserve(3 * text.length)
    this.at += this.bytes.write(text, this.at, 'utf8')
  }
}

interface ScalarType {
  oid: number
  write(to: WireWriter, value: unknown): void
}

const NO_DIGIT = 255
const HEX_DIGITS = new Uint8Array(128).fill(NO_DIGIT)
for (const [value, digit] of [...'0123456789abcdef'].entries()) HEX_DIGITS[digit.charCodeAt(0)] = value
for (const [i, digit] of [...'ABCDEF'].entries()) HEX_DIGITS[digit.charCodeAt(0)] = 10 + i

const DASHES = new Set([8, 13, 18, 23])
/** Positions of the 16 pairs of digits in a UUID. */
const PAIRS = Array.from({ length: 36 }, (_, i) => i)
  .filter((i) => !DASHES.has(i))
  .filter((_, i) => i % 2 === 0)

function writeUuid(to: WireWriter, value: unknown): void {
  const text = value as string
  if (text.length !== 36) throw new UnfitValue(`${text} is no uuid`)
  to.reserve(16)
  const { bytes } = to
  let { at } = to
  for (const pair of PAIRS) {
    const high = HEX_DIGITS[text.charCodeAt(pair)] ?? NO_DIGIT
    const low = HEX_DIGITS[text.charCodeAt(pair + 1)] ?? NO_DIGIT
    if (high === NO_DIGIT || low === NO_DIGIT) throw new UnfitValue(`${text} is no uuid`)
    bytes[at++] = (high << 4) | low
  }
  to.at = at
}

const HALF = 2 ** 32

function writeInt64(to: WireWriter, value: unknown): void {
  const number = Number(value)
  if (!Number.isSafeInteger(number)) throw new UnfitValue(`${value} is no bigint`)
  to.reserve(8)
  to.at = to.bytes.writeInt32BE(Math.floor(number / HALF), to.at)
  to.at = to.bytes.writeUInt32BE(number >>> 0, to.at)
}

/** PostgreSQL counts microseconds from 2000 on. */
const EPOCH_MS = Date.UTC(2000, 0, 1)

function writeInstant(to: WireWriter, value: unknown): void {
  const ms = (value as Date).getTime() - EPOCH_MS
  // Microseconds after 2285 exceed exact numbers, and a client may request any notAfter.
  if (Number.isSafeInteger(ms * 1000)) writeInt64(to, ms * 1000)
  else if (Number.isNaN(ms)) throw new UnfitValue('not a time')
  else {
    to.reserve(8)
    to.at = to.bytes.writeBigInt64BE(BigInt(ms) * 1000n, to.at)
  }
}

const SCALARS: Readonly<Record<string, ScalarType>> = {
  uuid: { oid: 2950, write: writeUuid },
  text: { oid: 25, write: (to, value) => to.utf8(value as string) },
  bytea: { oid: 17, write: (to, value) => to.raw(value as Buffer) },
  /** Given as JSON text. Its binary form is a version and the text. */
  jsonb: {
    oid: 3802,
    write(to, value) {
      to.reserve(1)
      to.bytes[to.at++] = 1
      to.utf8(value as string)
    },
  },
  integer: {
    oid: 23,
    write(to, value) {
      if (((value as number) | 0) !== value) throw new UnfitValue(`${value} is no integer`)
      to.int32(value)
    },
  },
  bigint: { oid: 20, write: writeInt64 },
  float8: {
    oid: 701,
    write(to, value) {
      to.reserve(8)
      to.at = to.bytes.writeDoubleBE(value as number, to.at)
    },
  },
  boolean: {
    oid: 16,
    write(to, value) {
      to.reserve(1)
      to.bytes[to.at++] = value ? 1 : 0
    },
  },
  timestamptz: { oid: 1184, write: writeInstant },
}

function writeSized(to: WireWriter, { write }: ScalarType, value: unknown): void {
  if (value === null || value === undefined) {
    to.int32(-1)
    return
  }
  const start = to.at
  to.int32(0)
  write(to, value)
  to.setInt32(start, to.at - start - 4)
}

/**
 * Header: dimensions, null flag, element type, length, first index. The flag may be 1 always:
 * PostgreSQL checks the elements.
 */
const arrayOf = (element: ScalarType): ScalarType => ({
  oid: 0,
  write(to, value) {
    const items = value as readonly unknown[]
    to.int32(items.length === 0 ? 0 : 1)
    to.int32(1)
    to.int32(element.oid)
    if (items.length === 0) return
    to.int32(items.length)
    to.int32(1)
    for (const item of items) writeSized(to, element, item)
  },
})

const ARRAYS = Object.fromEntries(Object.entries(SCALARS).map(([name, type]) => [name, arrayOf(type)]))

export type WriteParameters = (to: WireWriter, values: readonly unknown[]) => void

/** @throws Error for a parameter without a type, or with one that is not in `SCALARS` */
export function parametersOf(text: string): WriteParameters {
  const types: ScalarType[] = []
  for (const [, place, name, array] of text.matchAll(/\$(\d+)(?:::(\w+)(\[\])?)?/g)) {
    const type = (array ? ARRAYS : SCALARS)[name ?? '']
    if (type) types[Number(place) - 1] = type
  }
  const count = Math.max(0, ...[...text.matchAll(/\$(\d+)/g)].map(([, place]) => Number(place)))
  for (let i = 0; i < count; i++)
    if (!types[i]) throw new Error(`parameter $${i + 1} needs a type that can be written: ${text}`)
  return (to, values) => {
    if (values.length !== count) throw new Error(`${values.length} values for ${count} parameters: ${text}`)
    to.int16(count)
    for (let i = 0; i < count; i++) writeSized(to, types[i] as ScalarType, values[i])
  }
}

type ReadColumn = (text: string) => unknown

/**
 * JavaScript takes three of the six digits after the point. Other zones and eras are left to `pg`.
 */
const UTC_INSTANT = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,3})?)\d*\+00$/

function readInstant(text: string): unknown {
  const parts = UTC_INSTANT.exec(text)
  return parts ? new Date(`${parts[1]}T${parts[2]}Z`) : pg.types.getTypeParser(1184)(text)
}

/** Elements that need no quotes; an unquoted NULL is no string. */
const PLAIN_ARRAY = /^\{[^"\\{}]*\}$/

const readArray =
  (oid: number): ReadColumn =>
  (text) => {
    if (text === '{}') return []
    if (PLAIN_ARRAY.test(text) && !text.includes('NULL')) return text.slice(1, -1).split(',')
    return pg.types.getTypeParser(oid)(text)
  }

const READERS = new Map<number, ReadColumn>([
  [16, (text) => text === 't'],
  [23, Number],
  [17, (text) => Buffer.from(text.slice(2), 'hex')],
  [25, (text) => text],
  [2950, (text) => text],
  [1184, readInstant],
  [3802, JSON.parse],
  [1009, readArray(1009)],
  [2951, readArray(2951)],
])

export interface Column {
  name: string
  read: ReadColumn
}

/** As `pg` reads them, but faster for the types of the issuance path. */
export function columnsOf(fields: readonly { name: string; dataTypeID: number }[]): Column[] {
  return fields.map(({ name, dataTypeID }) => ({
    name,
    read: READERS.get(dataTypeID) ?? pg.types.getTypeParser(dataTypeID),
  }))
}

export function readRow(columns: readonly Column[], fields: readonly (string | null)[]): Record<string, unknown> {
  const row: Record<string, unknown> = {}
  for (let i = 0; i < columns.length; i++) {
    const { name, read } = columns[i] as Column
    const text = fields[i] as string | null
    row[name] = text === null ? null : read(text)
  }
  return row
}
