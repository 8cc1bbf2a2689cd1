/**
 * The audit chain: one JSON line for every signature, each holding the SHA-256 of the line before
 * it.
 *
 * 1. Group. Lines that arrive in one turn of the event loop, or during a write, form a group: at
 *    most 512 lines or 256 KiB.
 * 2. Write. The file is open with O_DSYNC, so one write is also its fdatasync. A crash can tear the
 *    last line; a loss of power can leave anything in the blocks of the last group.
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

import { closeSync, fstatSync, fsyncSync, ftruncateSync, renameSync, type Stats, statSync, write } from 'node:fs'
import path from 'node:path'
import { IdleSignal } from '../../src/shared/lib/time-limit.ts'
import { SignerUnavailable } from '../protocol/signer-errors.ts'
import { type AuditLine, type AuditRecord, type ChainPlace, segmentName, sha256Hex } from './line.ts'
import {
  hasRoom,
  isWantOfRoom,
  keepAside,
  MAX_GROUP_BYTES,
  openAtTail,
  openForAppending,
  syncDirectory,
  type Tail,
} from './tail.ts'

const MAX_GROUP_LINES = 512
const ROOM_CHECK_MS = 1000

interface Pending {
  line: string
  place: ChainPlace
  resolve(): void
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

/** Identifies the open file, to check that its path still names it. */
type FileIdentity = Pick<Stats, 'ino' | 'dev'>

export class AuditChain {
  #fd: number
  #identity: FileIdentity
  readonly #file: AuditFile
  readonly #events: AuditEvents
  /** Sequence number of the first line in the current file. */
  #first: number
  #tail: Tail
  /** Position after the newest group that is whole on disk. */
  #written: Tail
  #pending: Pending[] = []
  #writing = false
  #scheduled = false
  #failure: Error | undefined
  #roomCheck: NodeJS.Timeout | undefined
  #isClosed = false
  readonly #idle = new IdleSignal()
  #syncs = 0

  /** Use `openAuditChain`. */
  constructor(fd: number, file: AuditFile, tail: Tail & { first: number }, events: AuditEvents) {
    this.#fd = fd
    this.#identity = fstatSync(fd)
    this.#file = file
    this.#first = tail.first
    this.#tail = tail
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

  /** Resolves when the record is on disk. @throws SignerUnavailable when writing it failed. */
  append(record: AuditRecord): Promise<void> {
    if (this.#failure) return Promise.reject(notRecorded(this.#failure))
    const line = JSON.stringify({
      seq: this.#tail.sequence + 1,
      time: new Date().toISOString(),
      method: record.method,
      issuer: record.issuer,
      serial: record.serial,
      names: record.names,
      sha256: record.sha256,
      requester: record.requester,
      previous: this.#tail.previous,
    } satisfies AuditLine)
    this.#tail.sequence += 1
    this.#tail.previous = sha256Hex(line)
    const place = { sequence: this.#tail.sequence, previous: this.#tail.previous }
    return new Promise((resolve, reject) => {
      this.#pending.push({ line, place, resolve, reject })
      this.#scheduleGroup()
    })
  }

  /** Waits for lines under way, then closes the file. Later records are refused. */
  async close(): Promise<void> {
    if (this.#writing || this.#pending.length > 0) await this.#idle.wait()
    clearTimeout(this.#roomCheck)
    this.#failure ??= new Error('the audit chain is closed')
    this.#closeFile()
  }

  #closeFile(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    closeSync(this.#fd)
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
    this.#write(bytes, (error) => {
      this.#writing = false
      if (error) this.#fail(group, error)
      else this.#release(group)
    })
  }

  #release(group: readonly Pending[]): void {
    this.#syncs += 1
    this.#written = { ...group.at(-1)!.place, length: this.#tail.length }
    for (const { resolve } of group) resolve()
    try {
      if (this.#tail.length >= this.#file.maxBytes) this.#rotate()
    } catch (error) {
      this.#fail([], error)
      return
    }
    this.#scheduleGroup()
    if (!this.#scheduled) this.#idle.notify()
  }

  #rotate(): void {
    const { path: file } = this.#file
    const segment = segmentName(file, this.#first, this.#written.sequence)
    renameSync(file, segment)
    // Closed only after the new file is open, so that `#fd` is always an open descriptor.
    const former = this.#fd
    try {
      this.#fd = openForAppending(file)
    } catch (error) {
      // Undo the rename, so that the chain can resume when there is room.
      renameSync(segment, file)
      throw error
    }
    closeSync(former)
    this.#identity = fstatSync(this.#fd)
    syncDirectory(file)
    this.#first = this.#written.sequence + 1
    this.#tail.length = 0
    this.#written.length = 0
  }

  #takeGroup(): Pending[] {
    let bytes = 0
    let count = 0
    for (const { line } of this.#pending) {
      bytes += line.length + 1
      if (count > 0 && (bytes > MAX_GROUP_BYTES || count === MAX_GROUP_LINES)) break
      count += 1
    }
    return this.#pending.splice(0, count)
  }

  #write(bytes: Buffer, done: (error: Error | undefined) => void): void {
    try {
      requireOurs(this.#file.path, this.#identity, this.#tail.length)
    } catch (error) {
      done(error as Error)
      return
    }
    write(this.#fd, bytes, (error, written) => {
      if (error) {
        done(error)
        return
      }
      this.#tail.length += written
      // A disk that fills up writes a part first and fails with the rest.
      if (written < bytes.length) this.#write(bytes.subarray(written), done)
      else done(undefined)
    })
  }

  #fail(group: readonly Pending[], cause: unknown): void {
    this.#failure = new Error(`audit chain stopped: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    })
    const lost = [...group, ...this.#pending.splice(0)]
    for (const { reject } of lost) reject(notRecorded(this.#failure))
    const waitsForRoom = isWantOfRoom(cause) && this.#rollBack()
    this.#events.stopped?.(this.#failure, waitsForRoom)
    this.#idle.notify()
    if (waitsForRoom) {
      this.#checkForRoomLater()
      return
    }
    try {
      this.#closeFile()
    } catch {
      // Report the reason that stopped the chain, not this failure.
    }
  }

  /** @returns whether the file ends with its newest whole group again */
  #rollBack(): boolean {
    try {
      requireOurs(this.#file.path, this.#identity, this.#tail.length)
      ftruncateSync(this.#fd, this.#written.length)
      fsyncSync(this.#fd)
    } catch {
      return false
    }
    this.#tail = { ...this.#written }
    return true
  }

  #checkForRoomLater(): void {
    this.#roomCheck = setTimeout(async () => {
      const isThereRoom = await hasRoom(this.#file.path)
      if (this.#isClosed) return
      if (!isThereRoom) {
        this.#checkForRoomLater()
        return
      }
      this.#failure = undefined
      this.#events.resumed?.()
    }, ROOM_CHECK_MS).unref()
  }
}

/**
 * @throws Error when another process moved, removed or wrote the file. A further line would break
 * the chain or be lost.
 */
function requireOurs(file: string, { ino, dev }: FileIdentity, length: number): void {
  const there = statSync(file, { throwIfNoEntry: false })
  if (there?.ino !== ino || there.dev !== dev) throw new Error('the audit file was moved or removed by somebody else')
  if (there.size !== length)
    throw new Error(`the audit file has ${there.size} bytes instead of ${length}: somebody else writes to it`)
}

function notRecorded(cause: Error): SignerUnavailable {
  return new SignerUnavailable('the signature could not be recorded, so it is not given out', { cause })
}

export interface OpenedAudit {
  chain: AuditChain
  /** Its newest lines. */
  lines: readonly AuditLine[]
  /** After a repair, the file that holds the damaged bytes. */
  keptAside: string | undefined
}

/**
 * Opens the chain for appending, making the file (mode 0640) when it is missing,
 * and repairs what a crash left.
 * @throws Error in one sentence when the end of the file is no chain.
 */
export async function openAuditChain(
  { path: file, maxBytes }: AuditFile,
  events: AuditEvents = {},
): Promise<OpenedAudit> {
  const { fd, tail, damaged, lines } = openAtTail(file)
  const chain = new AuditChain(fd, { path: file, maxBytes }, tail, events)
  if (damaged.length === 0) return { chain, lines, keptAside: undefined }

  const keptAside = keepAside(`${file}.torn-${tail.sequence + 1}`, damaged)
  ftruncateSync(fd, tail.length)
  const record = { issuer: '', serial: '', names: [], sha256: sha256Hex(damaged), requester: path.basename(keptAside) }
  await chain.append({ method: 'auditRepair', ...record })
  return { chain, lines, keptAside }
}
