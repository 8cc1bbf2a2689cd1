/**
 * Standard output for the lines of a log. The log never stops a program: a line that a full disk, an input/output error
 * or a closed pipe refuses is dropped and counted. After that the next write begins with a line end, since a line may have been cut.
 */

import { writeSync } from 'node:fs'

const STANDARD_OUTPUT = 1
const NEWLINE = 0x0a
const NOTHING = Buffer.alloc(0)
/** PIPE_BUF: a pipe takes so much whole or not at all (pipe(7)), so that no line of another thread comes between. */
const MOST_AT_ONCE = 4096
/** Waits for a reader that is slow or hangs; further lines are dropped. */
const MOST_HELD = 1024 * 1024
/** A pipe is full, which passes sooner than a full disk. */
const IS_BUSY: readonly unknown[] = ['EAGAIN', 'EBUSY']
const BUSY_RETRY_MS = 10
const FULL_RETRY_MS = 100
/** At the end of a program, for a reader that is slow. */
const LAST_TRIES = 100

interface LogOutputEvents {
  dropped?(lines: number): void
  /** Lines are written again; so many were lost. */
  resumed(lost: number): void
}

/** The message with which a log continues. */
export const LINES_LOST = 'standard output takes lines again; those in between are lost'

export class LogOutput {
  /** Lines are gathered up to so many bytes; with 0 each is written at once. */
  readonly #gather: number
  readonly #events: LogOutputEvents
  #held = ''
  /** The bytes that are written next: whole lines, but for the first after a part of it. */
  #chunk = NOTHING
  /** What stands in the file may not end with a line end. */
  #isTorn = false
  #lost = 0
  #retry: NodeJS.Timeout | undefined

  constructor(gather: number, events: LogOutputEvents) {
    this.#gather = gather
    this.#events = events
  }

  write(line: string): void {
    if (this.#held.length > MOST_HELD) this.#drop(1)
    else this.#held += line
    if (this.#held.length > this.#gather && this.#retry === undefined) this.flush()
  }

  /**
   * Writes what is left, or drops it. The thread waits: 8 KiB take 11 µs, and 40 beside it.
   * @returns whether nothing is left
   */
  flush(): boolean {
    try {
      while (this.#take()) this.#advance(writeSync(STANDARD_OUTPUT, this.#piece()))
    } catch (error) {
      this.#fail(error)
    }
    return this.#chunk.length === 0
  }

  /** The last act of a thread. */
  end(): void {
    for (let tries = 0; tries < LAST_TRIES && !this.flush(); tries++)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BUSY_RETRY_MS)
    clearTimeout(this.#retry)
  }

  /** @returns whether there is something to write */
  #take(): boolean {
    if (this.#chunk.length === 0 && (this.#held !== '' || this.#isTorn)) {
      this.#chunk = Buffer.from(this.#isTorn ? `\n${this.#held}` : this.#held)
      this.#held = ''
    }
    return this.#chunk.length > 0
  }

  #piece(): Buffer {
    const end = this.#chunk.lastIndexOf(NEWLINE, MOST_AT_ONCE - 1)
    const at = end < 0 ? this.#chunk.indexOf(NEWLINE) : end
    return at < 0 ? this.#chunk : this.#chunk.subarray(0, at + 1)
  }

  #advance(written: number): void {
    if (written > 0) this.#isTorn = this.#chunk[written - 1] !== NEWLINE
    this.#chunk = this.#chunk.subarray(written)
    if (this.#chunk.length > 0 || this.#lost === 0) return
    const lost = this.#lost
    this.#lost = 0
    this.#events.resumed(lost)
  }

  #fail(error: unknown): void {
    const isBusy = IS_BUSY.includes((error as NodeJS.ErrnoException).code)
    if (!isBusy) {
      // A first line end that only closes a cut line is no line.
      const lines = this.#chunk.filter((byte) => byte === NEWLINE).length
      this.#drop(this.#isTorn && this.#chunk[0] === NEWLINE ? lines - 1 : lines)
      this.#chunk = NOTHING
      this.#isTorn = true
    }
    this.#retry ??= setTimeout(
      () => {
        this.#retry = undefined
        this.flush()
      },
      isBusy ? BUSY_RETRY_MS : FULL_RETRY_MS,
    ).unref()
  }

  #drop(lines: number): void {
    this.#lost += lines
    this.#events.dropped?.(lines)
  }
}
