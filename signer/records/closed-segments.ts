/**
 * The closed files of a record stream, and their compression in the background:
 *
 * 1. `<stream>.<first>-<last>` is a file as it was closed.
 * 2. `<stream>.<first>-<last>.index` is written, for certificates.
 * 3. `<stream>.<first>-<last>.gz` is written.
 * 4. The file of step 1 goes.
 *
 * Each new file is durable before the next step. A crash leaves the file of step 1, and the next start
 * begins again at 2.
 *
 * An index has for each certificate in order: u48 sequence number, u32 Unix seconds, u8 length, and the octets of the
 * serial number. `signedSerials` sends these bytes as they are.
 */

import { statSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import { LruMap } from '../../src/shared/lib/caching.ts'
import { replaceFile } from '../../src/shared/lib/files.ts'
import { closedSegments, segmentName } from '../audit/line.ts'
import { type CertificateLine, type LineTable, parseRecordLine, tableOf } from './record.ts'

const unzip = promisify(gunzip)
const zip = promisify(gzip)

/** A file is closed at 8 MiB; more is damage. */
const MAX_SEGMENT_BYTES = 64 * 1024 * 1024
/** 9 µs and 322 bytes for a certificate of 907; level 6 takes 15 µs for 314 bytes. */
const GZIP_LEVEL = 1
/** Unzipped segments that stay in memory for the next page, of 8 MiB each. */
const KEPT_IN_MEMORY = 2

interface Segment {
  first: number
  last: number
  /** The name of the file when it was closed. */
  file: string
  isCompressed: boolean
  /** On disk, with the index. */
  bytes: number
  /** Until it is on disk. */
  index: Buffer | undefined
}

export class ClosedSegments {
  readonly #stream: string
  readonly #hasIndex: boolean
  /** Oldest first. */
  readonly #segments: Segment[]
  readonly #tables = new LruMap<number, Promise<LineTable>>(KEPT_IN_MEMORY)
  /** One file is unzipped at a time, however many ask. */
  #loading: Promise<unknown> = Promise.resolve()

  constructor(stream: string, hasIndex: boolean) {
    this.#stream = stream
    this.#hasIndex = hasIndex
    const raw = closedSegments(stream).map((segment) => ({ ...segment, isCompressed: false }))
    const isRaw = new Set(raw.map(({ first }) => first))
    const compressed = closedSegments(stream, '.gz')
      .filter(({ first }) => !isRaw.has(first))
      .map(({ first, last }) => ({ first, last, file: segmentName(stream, first, last), isCompressed: true }))
    this.#segments = [...raw, ...compressed]
      .sort((one, other) => one.first - other.first)
      .map((segment) => ({ ...segment, bytes: sizeOf(segment.file), index: undefined }))
  }

  /** Oldest first. */
  get all(): readonly Segment[] {
    return this.#segments
  }

  get oldest(): Segment | undefined {
    return this.#segments[0]
  }

  get newest(): Segment | undefined {
    return this.#segments.at(-1)
  }

  get count(): number {
    return this.#segments.length
  }

  get bytes(): number {
    return this.#segments.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** The first segment that ends at or after `seq`. */
  find(seq: number): Segment | undefined {
    return this.#segments.find(({ last }) => last >= seq)
  }

  add(first: number, last: number, index: Buffer | undefined): void {
    const file = segmentName(this.#stream, first, last)
    this.#segments.push({ first, last, file, isCompressed: false, bytes: sizeOf(file), index })
  }

  /** @throws Error when the file cannot be read, as when it has just been dropped */
  lines(segment: Segment): Promise<LineTable> {
    const known = this.#tables.get(segment.first)
    if (known) return known
    const table = this.#loading.then(async () => tableOf(await read(segment)))
    // The callers get the error; the next file only waits.
    this.#loading = table.catch(() => this.#tables.delete(segment.first))
    this.#tables.set(segment.first, table)
    return table
  }

  /** Reads the lines as they are on the disk now. */
  async read(segment: Segment): Promise<LineTable> {
    return tableOf(await read(segment))
  }

  async index(segment: Segment): Promise<Buffer> {
    if (segment.index) return segment.index
    // Missing after a crash; the lines have all that is in it.
    const stored = await readFile(`${segment.file}.index`).catch(() => undefined)
    return stored && isIndexOf(stored, segment) ? stored : indexOf(await this.lines(segment)).bytes
  }

  /** Compresses what is not yet. Repeating it after a failure is safe. */
  async compress(): Promise<void> {
    for (const segment of this.#segments) {
      if (segment.isCompressed) continue
      const { file } = segment
      if (this.#hasIndex) await replaceFile(`${file}.index`, await this.index(segment))
      await replaceFile(`${file}.gz`, await zip(await readFile(file), { level: GZIP_LEVEL }))
      segment.isCompressed = true
      segment.index = undefined
      await rm(file)
      segment.bytes = sizeOf(file)
    }
  }

  /** Removes the oldest segment. */
  async drop(): Promise<void> {
    const oldest = this.#segments.shift()
    if (!oldest) return
    this.#tables.delete(oldest.first)
    for (const suffix of ['', '.gz', '.index']) await rm(`${oldest.file}${suffix}`, { force: true })
  }
}

const sizeOf = (file: string): number =>
  ['', '.gz', '.index'].reduce(
    (sum, suffix) => sum + (statSync(file + suffix, { throwIfNoEntry: false })?.size ?? 0),
    0,
  )

/** Compression may end in between, so it looks twice. Of a damaged file nothing can be unpacked; see `damageIn`. */
async function read({ file }: Segment): Promise<Buffer> {
  try {
    return await readFile(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    const zipped = await readFile(`${file}.gz`)
    return await unzip(zipped, { maxOutputLength: MAX_SEGMENT_BYTES }).catch(() => Buffer.alloc(0))
  }
}

const HEAD_BYTES = 11
/** An index has about 6,500 certificates, the number in a file of 8 MiB. */
const FIRST_BYTES = 192 * 1024

export class SerialIndex {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES)
  #length = 0

  add(seq: number, seconds: number, serial: string): void {
    const octets = serial.length / 2
    if (this.#length + HEAD_BYTES + octets > this.#bytes.length)
      this.#bytes = Buffer.concat([this.#bytes, Buffer.allocUnsafe(this.#bytes.length)])
    this.#bytes.writeUIntBE(seq, this.#length, 6)
    this.#bytes.writeUInt32BE(seconds, this.#length + 6)
    this.#bytes[this.#length + 10] = octets
    this.#bytes.write(serial, this.#length + HEAD_BYTES, 'hex')
    this.#length += HEAD_BYTES + octets
  }

  /** A view; good until the next `add`. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }
}

/** For a file whose index was not written. */
export function indexOf(lines: LineTable): SerialIndex {
  const index = new SerialIndex()
  for (let at = 0; at < lines.count; at++) {
    const line = parseRecordLine<CertificateLine>(lines.textAt(at))
    if (line) index.add(line.seq, Math.floor(Date.parse(line.time) / 1000), line.serial)
  }
  return index
}

/**
 * Cuts a page of whole records after sequence number `after`.
 * @returns undefined when there is none
 */
export function pageOf(index: Buffer, after: number, maxBytes: number): { payload: Buffer; last: number } | undefined {
  let start = 0
  while (start < index.length && index.readUIntBE(start, 6) <= after) start += lengthAt(index, start)
  let end = start
  let last = 0
  while (end < index.length) {
    const length = lengthAt(index, end)
    if (end + length - start > maxBytes) break
    last = index.readUIntBE(end, 6)
    end += length
  }
  return last === 0 ? undefined : { payload: index.subarray(start, end), last }
}

const lengthAt = (index: Buffer, at: number): number => HEAD_BYTES + index[at + 10]!

/** Whether these bytes are a whole index whose sequence numbers go from `first` to `last`. */
function isIndexOf(index: Buffer, { first, last }: { first: number; last: number }): boolean {
  let start = 0
  let newest = 0
  while (start + HEAD_BYTES < index.length) {
    const seq = index.readUIntBE(start, 6)
    if (seq <= newest || (start === 0 && seq !== first)) return false
    newest = seq
    start += lengthAt(index, start)
  }
  return start === index.length && newest === last
}
