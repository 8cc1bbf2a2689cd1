/** Pages of records for a client: bounded, oldest first, across closed segments and the current file. */

import { LINES_PAGE_BYTES, SERIALS_PAGE_BYTES } from '../protocol/methods.ts'
import { type LineKey, type LineTable, parseRecordLine } from './line-table.ts'
import type { RecordStream } from './record-stream.ts'
import { pageOf } from './serial-index.ts'

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
