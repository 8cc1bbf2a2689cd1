/**
 * The lines of the record files. They hold in full what the audit chain names: a certificate in DER, the revocations that
 * were noted or that a CRL added, or the decisions that a service reported. A checksum shows whether a line is whole, and
 * a table where each begins.
 */

import type { LinePlace, NewRecord } from '../audit/chain.ts'
import { sha256Hex } from '../audit/line.ts'
import { MAX_NOTED } from '../protocol/methods.ts'

/** One certificate, one line. */
export interface CertificateLine {
  seq: number
  time: string
  /** Id in the configuration. */
  issuer: string
  /** Lower-case hex. */
  serial: string
  requester: string
  /** Base64 of the DER. */
  certificate: string
}

/** Serial number in lower-case hex, Unix seconds, CRLReason (RFC 5280 §5.3.1); 0 when there is none. */
export type RevocationEntry = readonly [serial: string, seconds: number, reason: number]

/** A part of what belongs to one line of the chain. */
export interface RevocationLine {
  seq: number
  /** From 0. */
  part: number
  time: string
  issuer: string
  /** Hex SHA-256 of the issuer's name and key identifier: ids may leave the configuration. */
  key: string
  /** The CRL that was signed; its number in lower-case hex, its URL empty for a complete list. */
  list?: { number: string; url: string }
  entries: readonly RevocationEntry[]
}

/** Decisions of administrators and clients, as the service describes them (src/domain/decision.ts). */
interface DecisionLine {
  seq: number
  part: 0
  time: string
  requester: string
  decisions: readonly object[]
}

export const STREAMS = ['certificates', 'revocations', 'decisions'] as const
export type StreamName = (typeof STREAMS)[number]

export interface SignerRecord extends NewRecord {
  stream: StreamName
  seq: number
  /** The entry of a certificate in the index. */
  indexed: { seconds: number; serial: string } | undefined
  lines: readonly string[]
}

/** The record of a certificate at its place in the chain. */
export function certificateRecord(
  { seq, time }: LinePlace,
  { issuer, serial, requester }: Pick<CertificateLine, 'issuer' | 'serial' | 'requester'>,
  certificate: Buffer,
): SignerRecord {
  const line: CertificateLine = { seq, time, issuer, serial, requester, certificate: certificate.toString('base64') }
  const indexed = { seconds: Math.floor(Date.parse(time) / 1000), serial }
  return recordOf('certificates', seq, [recordText(line)], indexed)
}

/** The record of revocations; one line for each 500 entries, and one when there are none. */
export function revocationRecord(
  { seq, time }: LinePlace,
  { issuer, key, list }: Pick<RevocationLine, 'issuer' | 'key' | 'list'>,
  entries: readonly RevocationEntry[],
): SignerRecord {
  const lines: string[] = []
  do {
    const part = lines.length
    const some = entries.slice(part * MAX_NOTED, (part + 1) * MAX_NOTED)
    const line: RevocationLine = { seq, part, time, issuer, key, ...(list && { list }), entries: some }
    lines.push(recordText(line))
  } while (lines.length * MAX_NOTED < entries.length)
  return recordOf('revocations', seq, lines)
}

/** The record of decisions. */
export function decisionRecord(
  { seq, time }: LinePlace,
  requester: string,
  decisions: readonly object[],
): SignerRecord {
  const line: DecisionLine = { seq, part: 0, time, requester, decisions }
  return recordOf('decisions', seq, [recordText(line)])
}

function recordOf(
  stream: StreamName,
  seq: number,
  lines: readonly string[],
  indexed?: SignerRecord['indexed'],
): SignerRecord {
  const text = lines.join('')
  return { stream, seq, indexed, lines, sha256: sha256Hex(text), bytes: text.length }
}

const NEWLINE = 0x0a
/** Longer than the head of a line up to its part number. */
const HEAD_BYTES = 64
const HEAD = /^\{"seq":(\d+),(?:"part":(\d+),)?/

/** The place of a line among all lines of a stream. */
export interface LineKey {
  seq: number
  /** 0 for a certificate. */
  part: number
}

/** Lines that cannot be read. `first` is the sequence number of the first, or of the next one to it that has one; 0 for none. */
export interface Damage {
  lines: number
  first: number
}
export const UNDAMAGED: Damage = { lines: 0, first: 0 }

export const sumOf = (found: readonly Damage[]): Damage =>
  found.reduce(
    (sum, { lines, first }) => ({
      lines: sum.lines + lines,
      first: sum.first === 0 || first === 0 ? sum.first + first : Math.min(sum.first, first),
    }),
    UNDAMAGED,
  )

const isAfter = (one: LineKey, other: LineKey): boolean =>
  one.seq > other.seq || (one.seq === other.seq && one.part > other.part)

/** Lines in order. The bytes stay where they are: in a file or in memory. */
export class LineTable {
  readonly #keys: LineKey[] = []
  /** One more than lines: the last is the end. */
  readonly #starts: number[] = [0]
  readonly #read: (start: number, end: number) => Buffer
  /** Damage between two lines. It belongs to no key. */
  damage = UNDAMAGED
  /** Unfinished lines behind the last one. A crash leaves them in the current file. */
  torn = 0

  constructor(read: (start: number, end: number) => Buffer) {
    this.#read = read
  }

  get count(): number {
    return this.#keys.length
  }

  /** Bytes up to the end of the last line. */
  get end(): number {
    return this.#starts.at(-1)!
  }

  add(key: LineKey, start: number, end: number): void {
    // Bytes between two lines are damage, and belong to none.
    this.#starts[this.#keys.length] = start
    this.#starts.push(end)
    this.#keys.push(key)
  }

  /** Drops the last line. */
  pop(): void {
    this.#keys.pop()
    this.#starts.pop()
  }

  /** Damage of a closed file: an unfinished last line counts as well. */
  get betweenLines(): Damage {
    return sumOf([this.damage, { lines: this.torn, first: this.torn && (this.#keys.at(-1)?.seq ?? 0) }])
  }

  keyAt(index: number): LineKey {
    return this.#keys[index]!
  }

  /** Without the line end. */
  textAt(index: number): Buffer {
    const bytes = this.#read(this.#starts[index]!, this.#starts[index + 1]!)
    const end = bytes.indexOf(NEWLINE)
    return end < 0 ? bytes : bytes.subarray(0, end)
  }

  /** @returns the index of the first line after `key`; `count` when there is none */
  indexAfter(key: LineKey): number {
    let [low, high] = [0, this.count]
    while (low < high) {
      const middle = (low + high) >> 1
      if (isAfter(this.#keys[middle]!, key)) high = middle
      else low = middle + 1
    }
    return low
  }
}

/** Finds the lines in `bytes` by their heads. What is no line, or out of order, is damage. */
export function tableOf(bytes: Buffer, read = (start: number, end: number) => bytes.subarray(start, end)): LineTable {
  const table = new LineTable(read)
  let newest: LineKey = { seq: 0, part: 0 }
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(NEWLINE, start) + 1
    // Without a line end it is torn.
    if (end === 0) {
      table.torn += 1
      break
    }
    const head = HEAD.exec(bytes.toString('latin1', start, Math.min(end, start + HEAD_BYTES)))
    const key = head && { seq: Number(head[1]), part: Number(head[2] ?? 0) }
    if (key && isAfter(key, newest)) {
      table.damage = sumOf([table.damage, { lines: table.torn, first: table.torn && key.seq }])
      table.torn = 0
      table.add(key, start, end)
      newest = key
    } else table.torn += 1
    start = end
  }
  return table
}

const SUM_DIGITS = 16
const SUM = /,"sum":"([0-9a-f]{16})"\}$/
const sumOfText = (text: string): string => sha256Hex(text).slice(0, SUM_DIGITS)

/** A line with its end. Its last member is a checksum of what is before: a changed digit of a serial number is JSON, too. */
function recordText(line: object): string {
  // The files are latin1: a character beyond ASCII is an escape.
  const text = JSON.stringify(line)
    .slice(0, -1)
    .replaceAll(/[\u0080-\uffff]/g, escaped)
  return `${text},"sum":"${sumOfText(text)}"}\n`
}

const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

/** @returns undefined for what is no JSON object, or was changed. Lines of earlier releases have no checksum. */
export function parseRecordLine<T extends object>(text: Buffer): T | undefined {
  try {
    const whole = text.toString('latin1')
    const sum = SUM.exec(whole)
    if (sum && sumOfText(whole.slice(0, sum.index)) !== sum[1]) return undefined
    const line = JSON.parse(whole) as T | null
    return typeof line === 'object' && line !== null ? line : undefined
  } catch {
    return undefined
  }
}
