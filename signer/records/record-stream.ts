/**
 * One stream of records: a file that grows to 8 MiB, then becomes a closed segment. It is written before
 * the chain and without a flush of its own, so a crash leaves records that the chain has not. The start
 * cuts them off. Clients read it in bounded pages, the oldest first.
 */

import { closeSync, readFileSync } from 'node:fs'
import { AppendFile, openForAppending } from '../audit/append-file.ts'
import { type AuditLine, segmentName, sha256Hex } from '../audit/line.ts'
import { LINES_PAGE_BYTES, SERIALS_PAGE_BYTES } from '../protocol/methods.ts'
import { ClosedSegments, indexOf, pageOf, SerialIndex } from './closed-segments.ts'
import {
  type Damage,
  type LineKey,
  type LineTable,
  parseRecordLine,
  type SignerRecord,
  sumOf,
  tableOf,
  UNDAMAGED,
} from './record.ts'

/** The most that a crash leaves: the chain has at most 512 lines in a group. */
const MAX_UNCHAINED = 512

export class RecordStream {
  readonly closed: ClosedSegments
  readonly #hasIndex: boolean
  readonly #fileBytes: number
  readonly #file: AppendFile
  #lines: LineTable
  #index: SerialIndex
  #pending: readonly SignerRecord[] = []
  #isSyncing = false
  #isDirty = false
  /** Records of the chain that the start has cut off, because they were others. */
  cutOff: Damage = UNDAMAGED

  /**
   * Opens the files of the stream `path`, and makes the current one (mode 0640) when it is missing.
   * @param fileBytes size at which the current file is closed
   */
  constructor(path: string, { hasIndex, fileBytes }: { hasIndex: boolean; fileBytes: number }) {
    this.closed = new ClosedSegments(path, hasIndex)
    this.#hasIndex = hasIndex
    this.#fileBytes = fileBytes
    const fd = openForAppending(path)
    try {
      const bytes = readFileSync(fd)
      this.#file = new AppendFile(path, { fd, length: bytes.length })
      this.#lines = tableOf(bytes, this.#read)
    } catch (error) {
      closeSync(fd)
      throw error
    }
    this.#index = new SerialIndex()
  }

  readonly #read = (start: number, end: number): Buffer => this.#file.read(start, end)

  /** Sequence number of the oldest record; 0 when there is none. */
  get first(): number {
    return this.closed.oldest?.first ?? this.#firstOfFile
  }

  /** Sequence number of the newest record in the chain; 0 when there is none. */
  get last(): number {
    return this.newest.seq
  }

  /** The newest line. */
  get newest(): LineKey {
    const { count } = this.#lines
    if (count > 0) return this.#lines.keyAt(count - 1)
    return { seq: this.closed.newest?.last ?? 0, part: Number.MAX_SAFE_INTEGER }
  }

  /** The lines of the current file. */
  get lines(): LineTable {
    return this.#lines
  }

  /** The index of the current file; good until the next group. */
  get index(): Buffer {
    return this.#index.bytes
  }

  get bytes(): number {
    return this.closed.bytes + this.#file.length
  }

  get #firstOfFile(): number {
    return this.#lines.count > 0 ? this.#lines.keyAt(0).seq : 0
  }

  /**
   * Drops from the end what is torn, and what the chain has not.
   * @throws Error in one sentence when that is more than a crash leaves
   */
  cutTo(newest: number, chain: ReadonlyMap<number, AuditLine>): void {
    const lines = this.#lines
    let cut = 0
    while (lines.count > 0 && !this.#isChained(newest, chain)) {
      const { seq } = lines.keyAt(lines.count - 1)
      if (chain.get(seq)?.record !== undefined) this.cutOff = sumOf([this.cutOff, { lines: 1, first: seq }])
      while (lines.count > 0 && lines.keyAt(lines.count - 1).seq === seq) lines.pop()
      cut += 1
    }
    if (cut > MAX_UNCHAINED || (this.closed.newest?.last ?? 0) > newest)
      throw new Error(
        `${this.#file.path}: it has records that are newer than the audit chain; bring the whole chain back, or move all record files away`,
      )
    if (lines.end < this.#file.length) this.#file.cutBack(lines.end)
    if (this.#hasIndex) this.#index = indexOf(lines)
  }

  /** Whether the chain has the last record, as far as `chain` goes back. */
  #isChained(newest: number, chain: ReadonlyMap<number, AuditLine>): boolean {
    const lines = this.#lines
    const { seq } = lines.keyAt(lines.count - 1)
    const texts: Buffer[] = []
    for (let at = lines.indexAfter({ seq: seq - 1, part: Number.MAX_SAFE_INTEGER }); at < lines.count; at++)
      texts.push(lines.textAt(at))
    if (seq > newest || texts.some((text) => parseRecordLine(text) === undefined)) return false
    const line = chain.get(seq)
    return line === undefined || line.record === sha256Hex(texts.map((text) => `${text.toString('latin1')}\n`).join(''))
  }

  append(records: readonly SignerRecord[], done: (error: Error | undefined) => void): void {
    this.#pending = records
    if (records.length === 0) done(undefined)
    else this.#file.append(Buffer.from(records.flatMap(({ lines }) => lines).join(''), 'latin1'), done)
  }

  /** The pending records are in the chain: readers see them. Begins a new file when this one is full. */
  commit(): void {
    if (this.#pending.length === 0) return
    for (const { seq, lines, indexed } of this.#pending) {
      for (const [part, text] of lines.entries())
        this.#lines.add({ seq, part }, this.#lines.end, this.#lines.end + text.length)
      if (indexed) this.#index.add(seq, indexed.seconds, indexed.serial)
    }
    this.#pending = []
    this.#isDirty = true
    // A sync under way needs the open file; the next group comes here again.
    if (this.#file.length >= this.#fileBytes && !this.#isSyncing) this.#startAnew()
  }

  rollBack(): void {
    this.#pending = []
    if (this.#file.length > this.#lines.end) this.#file.cutBack(this.#lines.end)
  }

  #startAnew(): void {
    const [first, last] = [this.#firstOfFile, this.last]
    this.#file.startAnew(segmentName(this.#file.path, first, last))
    this.closed.add(first, last, this.#hasIndex ? this.#index.bytes : undefined)
    this.#lines = tableOf(Buffer.alloc(0), this.#read)
    this.#index = new SerialIndex()
  }

  /** Puts what was written on disk. Does nothing when nothing was, or while it is under way. */
  sync(done: (error: Error | null) => void): void {
    if (!this.#isDirty || this.#isSyncing) return
    this.#isDirty = false
    this.#isSyncing = true
    this.#file.sync((error) => {
      this.#isSyncing = false
      done(error)
    })
  }

  close(): void {
    this.#file.close()
  }
}

const LINE_END = Buffer.from('\n')

interface Page<L> {
  payload: Buffer
  last: L
  more: boolean
}

/** @returns index records of certificates above `after`; see METHODS */
export async function serialsAfter(certificates: RecordStream, after: number): Promise<Page<number>> {
  const { closed } = certificates
  for (let segment = closed.find(after + 1); segment; segment = closed.find(segment.last + 1)) {
    const page = pageOf(await closed.index(segment), after, SERIALS_PAGE_BYTES)
    if (page) return { ...page, more: page.last < certificates.last }
  }
  const page = pageOf(certificates.index, after, SERIALS_PAGE_BYTES)
  // The newest records of a closed file may have gone with the power: a mark must still reach their number.
  if (!page) return { payload: Buffer.alloc(0), last: Math.max(after, certificates.last), more: false }
  // Copied, because the index grows.
  return { payload: Buffer.from(page.payload), last: page.last, more: page.last < certificates.last }
}

/** @returns lines of these certificates; those that are kept no longer are left out */
export async function certificateLines(
  certificates: RecordStream,
  sequences: readonly number[],
): Promise<{ payload: Buffer; more: boolean }> {
  const page = new LinePage()
  for (const seq of sequences) {
    const text = await lineOf(certificates, seq)
    if (text && !page.add(text)) return { payload: page.payload, more: true }
  }
  return { payload: page.payload, more: false }
}

/** @returns the first line with this sequence number */
export async function lineOf(stream: Pick<RecordStream, 'closed' | 'lines'>, seq: number): Promise<Buffer | undefined> {
  const segment = stream.closed.find(seq)
  const table = segment ? await stream.closed.lines(segment) : stream.lines
  const at = table.indexAfter({ seq, part: -1 })
  return at < table.count && table.keyAt(at).seq === seq ? table.textAt(at) : undefined
}

/** @returns lines of revocations or decisions after this place */
export async function linesAfter(stream: RecordStream, after: LineKey): Promise<Page<LineKey>> {
  const page = new LinePage()
  const { closed } = stream
  let last = after
  const addFrom = (table: LineTable): boolean => {
    for (let at = table.indexAfter(after); at < table.count; at++) {
      if (!page.add(table.textAt(at))) return false
      last = table.keyAt(at)
    }
    return true
  }
  let isWhole = true
  for (let segment = closed.find(after.seq); segment && isWhole; segment = closed.find(segment.last + 1))
    isWhole = addFrom(await closed.lines(segment))
  if (isWhole) isWhole = addFrom(stream.lines)
  // Numbers of lines without records count as read, as for certificates.
  if (isWhole && last.seq < stream.last) last = { seq: stream.last, part: 0 }
  return { payload: page.payload, last, more: !isWhole }
}

/** Whole lines up to a number of bytes, and at least one. */
class LinePage {
  readonly #parts: Buffer[] = []
  #bytes = 0

  /** @returns false when there is no room */
  add(text: Buffer): boolean {
    if (this.#bytes > 0 && this.#bytes + text.length + 1 > LINES_PAGE_BYTES) return false
    // A loss of power can leave a damaged line; its reader could do nothing with it.
    if (!parseRecordLine(text)) return true
    this.#parts.push(text, LINE_END)
    this.#bytes += text.length + 1
    return true
  }

  get payload(): Buffer {
    return Buffer.concat(this.#parts)
  }
}
