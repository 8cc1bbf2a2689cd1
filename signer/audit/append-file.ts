/** A file that only this process appends to, such as the audit chain, and the lock that keeps a second signer away. */

import {
  closeSync,
  constants,
  existsSync,
  fdatasync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readSync,
  realpathSync,
  renameSync,
  type Stats,
  statSync,
  write,
} from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { tryLock } from '../../src/shared/lib/files.ts'

const { O_RDWR, O_APPEND, O_CREAT } = constants

/** Opens for reading and appending, and creates with mode 0640. */
export const openForAppending = (file: string, flags = 0): number =>
  openSync(file, O_RDWR | O_APPEND | O_CREAT | flags, 0o640)

/** Identifies the open file, to check that its path still names it. */
type FileIdentity = Pick<Stats, 'ino' | 'dev'>

export class AppendFile {
  readonly path: string
  /** O_DSYNC or nothing, in addition to the flags of `openForAppending`. */
  readonly #flags: number
  #fd: number
  #identity: FileIdentity
  #length: number
  #isClosed = false

  /** @param length bytes of the file; a difference fails the first write */
  constructor(path: string, { fd, length, flags = 0 }: { fd: number; length: number; flags?: number }) {
    this.path = path
    this.#flags = flags
    this.#fd = fd
    this.#identity = fstatSync(fd)
    this.#length = length
  }

  get length(): number {
    return this.#length
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** After an error a part may be written; `length` counts it. */
  append(bytes: Buffer, done: (error: Error | undefined) => void): void {
    try {
      this.#requireOurs()
    } catch (error) {
      done(error as Error)
      return
    }
    write(this.#fd, bytes, (error, written) => {
      if (error) {
        done(error)
        return
      }
      this.#length += written
      // A disk that fills up writes a part first and fails with the rest.
      if (written < bytes.length) this.append(bytes.subarray(written), done)
      else done(undefined)
    })
  }

  /** Drops what is behind `length`, durably. */
  cutBack(length: number): void {
    this.#requireOurs()
    ftruncateSync(this.#fd, length)
    fsyncSync(this.#fd)
    this.#length = length
  }

  /** Gives the file the name `closed`, and begins an empty one in its place. */
  startAnew(closed: string): void {
    renameSync(this.path, closed)
    // Closed only after the new file is open, so that `#fd` is always an open descriptor.
    const former = this.#fd
    try {
      this.#fd = openForAppending(this.path, this.#flags)
    } catch (error) {
      // Undo the rename, so that writing can resume when there is room.
      renameSync(closed, this.path)
      throw error
    }
    closeSync(former)
    this.#identity = fstatSync(this.#fd)
    this.#length = 0
  }

  /** Reads at once: meant for what was written lately, which the kernel has in memory. */
  read(start: number, end: number): Buffer {
    const bytes = Buffer.allocUnsafe(end - start)
    const octets = readSync(this.#fd, bytes, 0, bytes.length, start)
    return bytes.subarray(0, octets)
  }

  sync(done: (error: Error | null) => void): void {
    fdatasync(this.#fd, done)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    closeSync(this.#fd)
  }

  /**
   * @throws Error when another process moved, removed or wrote the file. What is written further would
   * break the chain or be lost.
   */
  #requireOurs(): void {
    const { ino, dev } = this.#identity
    const there = statSync(this.path, { throwIfNoEntry: false })
    if (there?.ino !== ino || there.dev !== dev)
      throw new Error(`the audit file ${this.path} was moved or removed by somebody else`)
    if (there.size !== this.#length)
      throw new Error(
        `the audit file ${this.path} has ${there.size} bytes instead of ${this.#length}: somebody else writes to it`,
      )
  }
}

/** A former signer has 5 s to end, as when its service was killed. */
const [TRIES, RETRY_MS] = [20, 250]

/**
 * @returns false where there is no flock(1), or the file system has no locks: then the first line of another stops the chain
 * @throws Error in a sentence while another process has the chain
 */
export async function lockChain(file: string): Promise<boolean> {
  const fd = openForAppending(`${existsSync(file) ? realpathSync(file) : file}.lock`)
  for (let tries = 1; tries <= TRIES; tries++) {
    const isOurs = tryLock(fd)
    if (isOurs !== false) return isOurs === true
    await sleep(RETRY_MS)
  }
  closeSync(fd)
  throw new Error(`another signer works on the audit chain ${file}; a second one would stop both`)
}
