/** Where each line of a record file begins, to find lines by sequence number; and whether a line is whole. */

import { sha256Hex } from '../audit/line.ts'

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
export function recordText(line: object): string {
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
