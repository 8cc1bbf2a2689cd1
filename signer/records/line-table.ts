/** Where each line of a record file begins, to find lines by sequence number. */

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

const isAfter = (one: LineKey, other: LineKey): boolean =>
  one.seq > other.seq || (one.seq === other.seq && one.part > other.part)

/** Lines in order. The bytes stay where they are: in a file or in memory. */
export class LineTable {
  readonly #keys: LineKey[] = []
  /** One more than lines: the last is the end. */
  readonly #starts: number[] = [0]
  readonly #read: (start: number, end: number) => Buffer

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

/** Finds the lines in `bytes` by their heads. What is no line, or out of order, is left out. */
export function tableOf(bytes: Buffer, read = (start: number, end: number) => bytes.subarray(start, end)): LineTable {
  const table = new LineTable(read)
  let newest: LineKey = { seq: 0, part: 0 }
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(NEWLINE, start) + 1
    // Without a line end it is torn.
    if (end === 0) break
    const head = HEAD.exec(bytes.toString('latin1', start, Math.min(end, start + HEAD_BYTES)))
    const key = head && { seq: Number(head[1]), part: Number(head[2] ?? 0) }
    if (key && isAfter(key, newest)) {
      table.add(key, start, end)
      newest = key
    }
    start = end
  }
  return table
}

/** @returns undefined for what is no JSON object, such as what a loss of power leaves */
export function parseRecordLine<T extends object>(text: Buffer): T | undefined {
  try {
    const line = JSON.parse(text.toString('latin1')) as T | null
    return typeof line === 'object' && line !== null ? line : undefined
  } catch {
    return undefined
  }
}
