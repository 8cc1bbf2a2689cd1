/** Record files as a command reads them, without a daemon: nothing is opened for writing. */

import { existsSync, readFileSync } from 'node:fs'
import { type AuditLine, sha256Hex } from '../audit/line.ts'
import { ClosedSegments } from './closed-segments.ts'
import { type CertificateLine, type Damage, type LineTable, parseRecordLine, tableOf } from './record.ts'
import { lineOf } from './record-stream.ts'

interface StoredStream {
  file: string
  closed: ClosedSegments
  /** The lines of the current file. */
  lines: LineTable
}

function storedStream(file: string, hasIndex: boolean): StoredStream {
  const bytes = existsSync(file) ? readFileSync(file) : Buffer.alloc(0)
  return { file, closed: new ClosedSegments(file, hasIndex), lines: tableOf(bytes) }
}

/** All lines of one sequence number. */
interface StoredRecord {
  seq: number
  sha256: string
  file: string
}

/** @param damaged is called for what is between records */
async function* recordsOf(
  { file, closed, lines }: StoredStream,
  damaged: (file: string, damage: Damage) => void,
): AsyncGenerator<StoredRecord, undefined> {
  for (const segment of closed.all) {
    const table = await closed.read(segment)
    damaged(segment.file, table.count === 0 ? { lines: 1, first: segment.first } : table.betweenLines)
    yield* recordsIn(table, segment.file)
  }
  damaged(file, lines.damage)
  yield* recordsIn(lines, file)
}

function* recordsIn(lines: LineTable, file: string): Generator<StoredRecord> {
  for (let at = 0; at < lines.count; ) {
    const { seq } = lines.keyAt(at)
    const texts: string[] = []
    for (; at < lines.count && lines.keyAt(at).seq === seq; at++) texts.push(`${lines.textAt(at).toString('latin1')}\n`)
    yield { seq, sha256: sha256Hex(texts.join('')), file }
  }
}

interface Compared {
  records: AsyncGenerator<StoredRecord, undefined>
  /** Compared with no line yet. */
  next: StoredRecord | undefined
}

/**
 * Compares records with the lines of the chain, which come in order. Each record that is there must
 * agree with the chain; older ones may have gone.
 */
export class RecordCheck {
  readonly #streams: Compared[] = []
  /** The first file with lines that are no records. */
  damaged: { file: string; damage: Damage } | undefined
  /** Records that agree with their line. */
  found = 0
  /** Lines whose record is not there, after the first one that is. */
  missing = 0

  static async open(audit: string): Promise<RecordCheck> {
    const streams = [
      storedStream(`${audit}.certificates`, true),
      storedStream(`${audit}.revocations`, false),
      storedStream(`${audit}.decisions`, false),
    ]
    const check = new RecordCheck()
    for (const stream of streams) {
      const records = recordsOf(stream, (file, damage) => {
        if (damage.lines > 0) check.damaged ??= { file, damage }
      })
      check.#streams.push({ records, next: (await records.next()).value })
    }
    return check
  }

  /** Call it after the last line of the chain: then `damaged` has what is behind. */
  async readOn(): Promise<void> {
    for (const { records } of this.#streams) while (!(await records.next()).done);
  }

  /** @returns what is wrong, in a few words */
  async check({ seq, record }: AuditLine): Promise<string | undefined> {
    let isFound = false
    for (const stream of this.#streams) {
      // Records of older lines, which are elsewhere, have nothing to compare them with.
      while (stream.next && stream.next.seq < seq) stream.next = (await stream.records.next()).value
      if (stream.next?.seq !== seq) continue
      isFound = true
      if (stream.next.sha256 !== record) return `its record in ${stream.next.file} is another one`
    }
    if (isFound) this.found += 1
    else if (record !== undefined && this.found > 0) this.missing += 1
    return undefined
  }
}

/** The DER of the certificate of this line; undefined when it is kept no longer. */
export function storedCertificates(audit: string): (line: AuditLine) => Promise<Buffer | undefined> {
  const stream = storedStream(`${audit}.certificates`, true)
  return async ({ seq }) => {
    const text = await lineOf(stream, seq)
    const line = text && parseRecordLine<CertificateLine>(text)
    return line && Buffer.from(line.certificate, 'base64')
  }
}
