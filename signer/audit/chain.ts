/**
 * The audit chain: one JSON line for every signature, each holding the SHA-256 of the line before
 * it.
 *
 * 1. Group. Lines that arrive in one turn of the event loop, or during a write, form a group: at
 *    most 512 lines or 256 KiB.
 * 2. Write. First the records of the group go to their own files (records/), without a flush. The
 *    chain is open with O_DSYNC, so one write is also its fdatasync. A crash can tear the last line;
 *    a loss of power can leave anything in the blocks of the last group.
 * 3. Release. Only now do the signatures of the group leave. A crash before this loses signatures
 *    that no client has.
 * 4. Rotate. A file of `maxBytes` becomes a segment (segments.ts), and a new file continues the
 *    chain. A crash in between leaves no current file; the next start continues behind the newest
 *    segment.
 *
 * The start reads the end of the file (tail.ts). It moves damaged bytes to `<file>.torn-<seq>` and
 * records that in a line with method `auditRepair`.
 *
 * Fail closed: the chain stops after a failed write, a failed rotation, or a change of the file by
 * another process. Nothing is signed until the next start. Only a full disk is different: the chain
 * cuts off the last group and resumes when there is room.
 */

import path from 'node:path'
import { messageOf } from '../../src/shared/lib/errors.ts'
import { IdleSignal } from '../../src/shared/lib/time-limit.ts'
import { NO_ROOM, SignerUnavailable } from '../protocol/signer-errors.ts'
import type { AppendFile } from './append-file.ts'
import { type AuditLine, type AuditRecord, type ChainPlace, segmentName, sha256Hex } from './line.ts'
import { hasRoom, isWantOfRoom, keepAside, MAX_GROUP_BYTES, openAtTail, syncDirectory, type Tail } from './tail.ts'

const MAX_GROUP_LINES = 512
/** The most bytes that the records of one group have. */
const MAX_GROUP_RECORD_BYTES = 1024 * 1024
const ROOM_CHECK_MS = 1000

/** Where and when a line stands in the chain. */
export interface LinePlace {
  seq: number
  /** RFC 3339, with milliseconds. */
  time: string
}

/** The full content of a line, as a file beside the chain gets it. */
export interface NewRecord {
  /** Hex SHA-256 of its bytes; the line repeats it. */
  sha256: string
  bytes: number
}

/** Files beside the chain. A record is in its file before its line is in the chain. */
export interface RecordWriter<R extends NewRecord = NewRecord> {
  /** Drops records that are not in the chain. Called once, at the start. */
  cutTo(newest: number, lines: readonly AuditLine[]): void
  /** Writes the records of one group, at least to the memory of the kernel. */
  write(records: readonly R[], done: (error: Error | undefined) => void): void
  /** The group is in the chain. */
  commit(): void
  /** The group is not in the chain: drops its records. */
  rollBack(): void
}

interface Pending<R> {
  line: string
  record: R | undefined
  place: ChainPlace
  resolve(sequence: number): void
  reject(error: Error): void
}

interface AuditFile {
  path: string
  /** Size at which the chain closes the file and begins a new one. */
  maxBytes: number
}

export interface AuditEvents {
  /** Called with the reason when the chain stops accepting lines. */
  stopped?(failure: Error, untilThereIsRoom: boolean): void
  /** Called when there is room and the chain accepts lines again. */
  resumed?(): void
}

interface ChainParts<R extends NewRecord> {
  file: AppendFile
  maxBytes: number
  records: RecordWriter<R> | undefined
  events: AuditEvents
}

export class AuditChain<R extends NewRecord = NewRecord> {
  readonly #file: AppendFile
  readonly #maxBytes: number
  readonly #records: RecordWriter<R> | undefined
  readonly #events: AuditEvents
  /** Sequence number of the first line in the current file. */
  #first: number
  #tail: ChainPlace
  /** Position after the newest group that is whole on disk. */
  #written: Tail
  #pending: Pending<R>[] = []
  #writing = false
  #scheduled = false
  #failure: Error | undefined
  #roomCheck: NodeJS.Timeout | undefined
  readonly #idle = new IdleSignal()
  #syncs = 0

  /** Use `openAuditChain`. */
  constructor({ file, maxBytes, records, events }: ChainParts<R>, tail: Tail & { first: number }) {
    this.#file = file
    this.#maxBytes = maxBytes
    this.#records = records
    this.#first = tail.first
    this.#tail = { sequence: tail.sequence, previous: tail.previous }
    this.#written = { ...tail }
    this.#events = events
  }

  /** Number of the newest line, on disk or on its way there. */
  get sequence(): number {
    return this.#tail.sequence
  }

  /** Groups synced so far. */
  get syncs(): number {
    return this.#syncs
  }

  /** Why the chain records nothing; undefined while it works. */
  get failure(): Error | undefined {
    return this.#failure
  }

  /**
   * @param describe makes what goes into the files beside the chain
   * @returns the sequence number, when the line is on disk
   * @throws SignerUnavailable when writing it failed
   */
  append(content: AuditRecord, describe?: (place: LinePlace) => R): Promise<number> {
    if (this.#failure) return Promise.reject(notRecorded(this.#failure))
    const seq = this.#tail.sequence + 1
    const time = new Date().toISOString()
    const record = describe?.({ seq, time })
    const line = JSON.stringify({
      seq,
      time,
      method: content.method,
      issuer: content.issuer,
      serial: content.serial,
      names: content.names,
      sha256: content.sha256,
      requester: content.requester,
      ...(record && { record: record.sha256 }),
      previous: this.#tail.previous,
    } satisfies AuditLine)
    this.#tail = { sequence: seq, previous: sha256Hex(line) }
    const place = this.#tail
    return new Promise((resolve, reject) => {
      this.#pending.push({ line, record, place, resolve, reject })
      this.#scheduleGroup()
    })
  }

  /** Waits for lines under way, then closes the file. Later records are refused. */
  async close(): Promise<void> {
    if (this.#writing || this.#pending.length > 0) await this.#idle.wait()
    clearTimeout(this.#roomCheck)
    this.#failure ??= new Error('the audit chain is closed')
    this.#file.close()
  }

  #scheduleGroup(): void {
    if (this.#writing || this.#scheduled || this.#pending.length === 0) return
    this.#scheduled = true
    setImmediate(() => this.#writeGroup())
  }

  #writeGroup(): void {
    this.#scheduled = false
    this.#writing = true
    const group = this.#takeGroup()
    const bytes = Buffer.from(group.map(({ line }) => `${line}\n`).join(''))
    const written = (error: Error | undefined) => {
      this.#writing = false
      if (error) this.#fail(group, error)
      else this.#release(group)
    }
    if (!this.#records) {
      this.#file.append(bytes, written)
      return
    }
    const records = group.flatMap(({ record }) => record ?? [])
    this.#records.write(records, (error) => (error ? written(error) : this.#file.append(bytes, written)))
  }

  #release(group: readonly Pending<R>[]): void {
    this.#syncs += 1
    this.#written = { ...group.at(-1)!.place, length: this.#file.length }
    for (const { resolve, place } of group) resolve(place.sequence)
    try {
      this.#records?.commit()
      if (this.#file.length >= this.#maxBytes) this.#rotate()
    } catch (error) {
      this.#fail([], error)
      return
    }
    this.#scheduleGroup()
    if (!this.#scheduled) this.#idle.notify()
  }

  #rotate(): void {
    const { path: file } = this.#file
    this.#file.startAnew(segmentName(file, this.#first, this.#written.sequence))
    syncDirectory(file)
    this.#first = this.#written.sequence + 1
    this.#written.length = 0
  }

  #takeGroup(): Pending<R>[] {
    let bytes = 0
    let recordBytes = 0
    let count = 0
    for (const { line, record } of this.#pending) {
      bytes += line.length + 1
      recordBytes += record?.bytes ?? 0
      const isFull = bytes > MAX_GROUP_BYTES || recordBytes > MAX_GROUP_RECORD_BYTES || count === MAX_GROUP_LINES
      if (count > 0 && isFull) break
      count += 1
    }
    return this.#pending.splice(0, count)
  }

  #fail(group: readonly Pending<R>[], cause: unknown): void {
    const waitsForRoom = isWantOfRoom(cause) && this.#rollBack()
    const stopped = waitsForRoom ? NO_ROOM : 'audit chain stopped'
    this.#failure = new Error(`${stopped}: ${messageOf(cause)}`, { cause })
    const lost = [...group, ...this.#pending.splice(0)]
    for (const { reject } of lost) reject(notRecorded(this.#failure))
    this.#events.stopped?.(this.#failure, waitsForRoom)
    this.#idle.notify()
    if (waitsForRoom) {
      this.#checkForRoomLater()
      return
    }
    try {
      this.#file.close()
    } catch {
      // Report the reason that stopped the chain, not this failure.
    }
  }

  /** @returns whether the files end with the newest whole group again */
  #rollBack(): boolean {
    try {
      this.#file.cutBack(this.#written.length)
      this.#records?.rollBack()
    } catch {
      return false
    }
    this.#tail = { sequence: this.#written.sequence, previous: this.#written.previous }
    return true
  }

  #checkForRoomLater(): void {
    this.#roomCheck = setTimeout(async () => {
      const isThereRoom = await hasRoom(this.#file.path)
      if (this.#file.isClosed) return
      if (!isThereRoom) {
        this.#checkForRoomLater()
        return
      }
      this.#failure = undefined
      this.#events.resumed?.()
    }, ROOM_CHECK_MS).unref()
  }
}

function notRecorded(cause: Error): SignerUnavailable {
  return new SignerUnavailable(`${cause.message}; the signature is not given out`, { cause })
}

export interface OpenedAudit<R extends NewRecord> {
  chain: AuditChain<R>
  /** Its newest lines. */
  lines: readonly AuditLine[]
  /** After a repair, the file that holds the damaged bytes. */
  keptAside: string | undefined
}

/**
 * Opens the chain for appending, making the file (mode 0640) when it is missing, and repairs what a crash left.
 * @throws Error in one sentence when the end of the file is no chain.
 */
export async function openAuditChain<R extends NewRecord>(
  { path: file, maxBytes }: AuditFile,
  events: AuditEvents = {},
  records?: RecordWriter<R>,
): Promise<OpenedAudit<R>> {
  const { open, tail, damaged, lines } = openAtTail(file)
  const chain = new AuditChain<R>({ file: open, maxBytes, records, events }, tail)
  // Before a repair, which takes the number of the first line that is missing.
  records?.cutTo(tail.sequence, lines)
  if (damaged.length === 0) return { chain, lines, keptAside: undefined }

  const keptAside = keepAside(`${file}.torn-${tail.sequence + 1}`, damaged)
  open.cutBack(tail.length)
  const record = { issuer: '', serial: '', names: [], sha256: sha256Hex(damaged), requester: path.basename(keptAside) }
  await chain.append({ method: 'auditRepair', ...record })
  return { chain, lines, keptAside }
}
