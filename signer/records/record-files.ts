/**
 * The files beside the audit chain from which a service can bring back what its database lost: `<audit>.certificates`,
 * `<audit>.revocations` and `<audit>.decisions`, see docs/decisions/records-of-the-signer.md.
 *
 * Records go to disk at most a second after their line, and at once when the kernel decides so. What
 * is closed is compressed in the background, and the oldest goes when its stream reaches its share of the bound.
 */

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { replaceFile } from '../../src/shared/lib/files.ts'
import type { RecordWriter } from '../audit/chain.ts'
import type { AuditLine } from '../audit/line.ts'
import { type SignerRecord, STREAMS } from './record.ts'
import { RecordStream } from './record-stream.ts'

/** The current file is read whole at a start, which takes 0.1 s. */
const FILE_BYTES = 8 * 1024 * 1024
const SYNC_MS = 1000
/** The shares of the bound. Without them, a front that was taken over could push every certificate out by noting revocations. */
const SHARES = { certificates: 3 / 4, revocations: 3 / 16, decisions: 1 / 16 }
/** Until a compression that failed is tried again. */
const RETRY_MS = 60_000

export interface RecordEvents {
  /** The oldest records went, up to this sequence number. */
  dropped?(stream: string, last: number): void
  /** Compression or removal failed; it is tried again. */
  failed?(error: Error): void
}

interface RecordOptions {
  /** The bound of all files together; the current ones stay, however large. */
  maxBytes: number
  fileBytes?: number
  events?: RecordEvents
}

export class RecordFiles implements RecordWriter<SignerRecord> {
  /** Hex; another chain has another one. */
  readonly chain: string
  readonly certificates: RecordStream
  readonly revocations: RecordStream
  readonly decisions: RecordStream
  readonly #maxBytes: number
  readonly #events: RecordEvents
  #syncTimer: NodeJS.Timeout | undefined
  #retryTimer: NodeJS.Timeout | undefined
  #failure: Error | undefined
  #tidying: Promise<void> = Promise.resolve()
  #isClosed = false

  /** Use `openRecordFiles`. */
  constructor(chain: string, audit: string, { maxBytes, fileBytes = FILE_BYTES, events = {} }: RecordOptions) {
    this.chain = chain
    this.certificates = new RecordStream(`${audit}.certificates`, { hasIndex: true, fileBytes })
    this.revocations = new RecordStream(`${audit}.revocations`, { hasIndex: false, fileBytes })
    this.decisions = new RecordStream(`${audit}.decisions`, { hasIndex: false, fileBytes })
    this.#maxBytes = maxBytes
    this.#events = events
  }

  cutTo(newest: number, lines: readonly AuditLine[]): void {
    const chain = new Map(lines.map((line) => [line.seq, line]))
    for (const stream of this.#streams) stream.cutTo(newest, chain)
    this.#tidyLater()
  }

  write(records: readonly SignerRecord[], done: (error: Error | undefined) => void): void {
    if (this.#failure) {
      done(this.#failure)
      return
    }
    const appendFrom = (at: number): void => {
      const name = STREAMS[at]
      if (name === undefined) {
        done(undefined)
        return
      }
      const own = records.filter(({ stream }) => stream === name)
      this[name].append(own, (error) => (error ? done(error) : appendFrom(at + 1)))
    }
    appendFrom(0)
  }

  commit(): void {
    const closed = this.#closed
    for (const stream of this.#streams) stream.commit()
    if (this.#closed !== closed) this.#tidyLater()
    this.#syncTimer ??= setTimeout(() => this.#sync(), SYNC_MS).unref()
  }

  rollBack(): void {
    // Want of room can fail a sync, too, and ends.
    this.#failure = undefined
    for (const stream of this.#streams) stream.rollBack()
  }

  /** Ends the work in the background, then closes the files. The chain is closed before. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#syncTimer)
    clearTimeout(this.#retryTimer)
    await this.#tidying
    for (const stream of this.#streams) stream.close()
  }

  get #streams(): RecordStream[] {
    return STREAMS.map((name) => this[name])
  }

  get #closed(): number {
    return this.#streams.reduce((sum, { closed }) => sum + closed.count, 0)
  }

  #sync(): void {
    this.#syncTimer = undefined
    for (const stream of this.#streams)
      stream.sync((error) => {
        // The kernel may have dropped what it could not write, so nothing more may follow it.
        if (error) this.#failure = error
      })
  }

  #tidyLater(): void {
    this.#tidying = this.#tidying
      .then(() => this.#tidy())
      .catch((error: Error) => {
        this.#events.failed?.(error)
        if (!this.#isClosed) this.#retryTimer = setTimeout(() => this.#tidyLater(), RETRY_MS).unref()
      })
  }

  async #tidy(): Promise<void> {
    for (const name of STREAMS) {
      const stream = this[name]
      if (this.#isClosed) return
      await stream.closed.compress()
      while (stream.bytes > SHARES[name] * this.#maxBytes && stream.closed.oldest) {
        const { last } = stream.closed.oldest
        await stream.closed.drop()
        this.#events.dropped?.(name, last)
      }
    }
  }
}

/** @throws Error in one sentence when the file of the identity is damaged */
export async function openRecordFiles(audit: string, options: RecordOptions): Promise<RecordFiles> {
  return new RecordFiles(await chainIdentity(`${audit}.records-id`), audit, options)
}

async function chainIdentity(file: string): Promise<string> {
  let text: string
  try {
    text = readFileSync(file, 'utf8').trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    const made = randomBytes(16).toString('hex')
    await replaceFile(file, `${made}\n`)
    return made
  }
  if (/^[0-9a-f]{32}$/.test(text)) return text
  throw new Error(`${file}: is not the identity of an audit chain that was written there`)
}
