/**
 * Streamed reply bodies. A reader asks for one piece after the other, so a slow client slows the
 * query and fills no memory.
 */

import { randomUUID } from 'node:crypto'
import { AdminError } from '../domain/admin-error.ts'

interface OpenStream {
  owner: string
  lines: AsyncIterator<string>
  idle: NodeJS.Timeout
  hasEnded: boolean
}

const PIECE_CHARACTERS = 128 * 1024
/** A reader that asks for nothing for this long is gone. */
const IDLE_MS = 60_000
const MOST_OPEN = 8
/** A slow reader may keep one open for ever. */
const MOST_OF_ONE = 2
const BUSY_RETRY_SECONDS = 10

export class ReplyStreams {
  readonly #open = new Map<string, OpenStream>()

  /** @returns the first piece, and the name of the rest where there is one */
  async open(owner: string, source: AsyncIterable<string>): Promise<{ body: string; stream?: string }> {
    const own = [...this.#open.values()].filter((other) => other.owner === owner).length
    if (this.#open.size >= MOST_OPEN || own >= MOST_OF_ONE)
      throw new AdminError('unavailable', 'too many exports at once; try again', {
        retryAfterSeconds: BUSY_RETRY_SECONDS,
      })
    const lines = source[Symbol.asyncIterator]()
    const stream = randomUUID()
    const opened: OpenStream = { owner, lines, idle: this.#idle(stream), hasEnded: false }
    this.#open.set(stream, opened)
    const body = (await this.next(stream)) ?? ''
    if (!opened.hasEnded) return { body, stream }
    this.cancel(stream)
    return { body }
  }

  /** @returns undefined behind the last piece. @throws Error when the stream is unknown or its source fails */
  async next(stream: string): Promise<string | undefined> {
    const found = this.#open.get(stream)
    if (!found) throw new Error('the stream is unknown, or its reader paused for too long')
    clearTimeout(found.idle)
    let piece = ''
    try {
      while (piece.length < PIECE_CHARACTERS && !found.hasEnded) {
        const { done, value } = await found.lines.next()
        if (done) found.hasEnded = true
        else piece += `${value}\n`
      }
    } catch (error) {
      this.#open.delete(stream)
      throw error
    }
    if (piece === '') this.#open.delete(stream)
    else if (this.#open.has(stream)) found.idle = this.#idle(stream)
    return piece === '' ? undefined : piece
  }

  cancel(stream: string): void {
    const found = this.#open.get(stream)
    if (!found) return
    clearTimeout(found.idle)
    this.#open.delete(stream)
    void found.lines.return?.()
  }

  #idle(stream: string): NodeJS.Timeout {
    return setTimeout(() => this.cancel(stream), IDLE_MS).unref()
  }
}
