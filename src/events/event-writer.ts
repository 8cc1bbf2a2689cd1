/**
 * Writes events that change no row: attempts, downloads, refusals, alarms.
 *
 * They wait at most a second and go in one statement. A crash loses those that wait, a full queue
 * drops and counts them (docs/decisions/events.md). With no consumer nothing is written.
 */

import type { EventKind, NewEvent } from '../domain/event.ts'
import { type Database, isUnavailable } from '../store/database.ts'
import { readWantedKinds, writeEvents } from './occurrence-store.ts'

export interface EventWriterEvents {
  /** The queue was full, or the database refused them. */
  dropped(count: number): void
  /** They wait for the next try. */
  postponed(error: unknown): void
}

export interface EventWriterOptions {
  db: Pick<Database, 'query'>
  events: EventWriterEvents
  maxWaiting?: number
}

const WRITE_AFTER_MS = 250
/** How long the answer to "which kinds are wanted" holds. */
const WANTED_FOR_MS = 1_000
const RETRY_MS = 1_000
const MAX_WAITING = 5_000
const MAX_BATCH = 500

export class EventWriter {
  readonly #options: EventWriterOptions
  readonly #maxWaiting: number
  #waiting: NewEvent[] = []
  #wanted: ReadonlySet<EventKind> = new Set()
  /** `performance.now()` at which `#wanted` is asked for again. */
  #wantedUntil = 0
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> | undefined

  constructor(options: EventWriterOptions) {
    this.#options = options
    this.#maxWaiting = options.maxWaiting ?? MAX_WAITING
  }

  /** Never waits or throws. */
  write(event: NewEvent): void {
    if (performance.now() < this.#wantedUntil && !this.#wanted.has(event.kind)) return
    if (this.#waiting.length >= this.#maxWaiting) this.#options.events.dropped(1)
    else this.#waiting.push(event)
    this.#later(WRITE_AFTER_MS)
  }

  /** Writes what waits, once; what the database does not take then is lost. */
  async close(): Promise<void> {
    clearTimeout(this.#timer)
    await this.#writing
    await this.#write()
    clearTimeout(this.#timer)
    if (this.#waiting.length > 0) this.#options.events.dropped(this.#waiting.length)
    this.#waiting = []
  }

  #later(ms: number): void {
    if (this.#timer !== undefined || this.#writing) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      void this.#write()
    }, ms)
    this.#timer.unref()
  }

  #write(): Promise<void> {
    this.#writing = this.#writeAll().then(
      () => {
        this.#writing = undefined
        if (this.#waiting.length > 0) this.#later(WRITE_AFTER_MS)
      },
      (error) => {
        this.#writing = undefined
        this.#options.events.postponed(error)
        this.#later(RETRY_MS)
      },
    )
    return this.#writing
  }

  async #writeAll(): Promise<void> {
    await this.#ask()
    this.#waiting = this.#waiting.filter(({ kind }) => this.#wanted.has(kind))
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, MAX_BATCH)
      await this.#writeBatch(batch)
      this.#waiting = this.#waiting.slice(batch.length)
    }
  }

  async #ask(): Promise<void> {
    if (this.#waiting.length === 0 || performance.now() < this.#wantedUntil) return
    this.#wanted = await readWantedKinds(this.#options.db)
    this.#wantedUntil = performance.now() + WANTED_FOR_MS
  }

  /** @throws when the database is away */
  async #writeBatch(batch: readonly NewEvent[]): Promise<void> {
    try {
      await writeEvents(this.#options.db, batch)
    } catch (error) {
      if (isUnavailable(error)) throw error
      // A repeat would be refused again, and keep all others waiting.
      this.#options.events.postponed(error)
      this.#options.events.dropped(batch.length)
    }
  }
}
