/**
 * Writes events that change no row: attempts, downloads, refusals, alarms.
 *
 * They wait at most a second and go in one statement. A crash loses those that wait, a full queue
 * drops and counts them (docs/decisions/events.md). With no consumer nothing is written.
 */

import type { EventKind, NewEvent } from '../domain/event.ts'
import { type Database, isUnavailable, type Statement } from '../store/database.ts'

interface EventWriterEvents {
  /** The queue was full, or the database refused them. */
  dropped(count: number): void
  /** They wait for the next try. */
  postponed(error: unknown): void
}

interface EventWriterOptions {
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

const WANTED: Statement = {
  name: 'events-wanted',
  text: 'SELECT DISTINCT unnest(kinds) AS kind FROM event_consumers',
}

/** Writers on the request path know ids; the columns of the row that consumers are told of are read here, once a batch. */
const WRITE: Statement = {
  name: 'events-write',
  // certificates_pkey, orders_pkey; accounts_pkey for each consumer that wants holders with a contact
  text: `
    WITH e AS MATERIALIZED (
      SELECT gen_random_uuid() AS event_id, u.*, u.given || CASE
        WHEN u.kind IN ('certificate.delivery', 'certificate.revocation_failed') THEN coalesce(
          (SELECT jsonb_build_object('row', jsonb_build_object(
                    'serial_number', c.serial_number, 'names', c.names, 'account_id', c.account_id))
             FROM certificates c WHERE c.id = u.subject::uuid), '{}')
        WHEN u.kind IN ('order.csr_refused', 'order.recovered') THEN coalesce(
          (SELECT jsonb_build_object('identifiers', o.identifiers) FROM orders o WHERE o.id = u.subject::uuid), '{}')
        ELSE '{}' END AS data
        FROM unnest($1::text[], $2::text[], $3::uuid[], $4::jsonb[])
             WITH ORDINALITY AS u (kind, subject, account_id, given, place)
    )
    INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
    SELECT c.name, e.event_id, e.kind, e.subject, e.account_id, clock_timestamp(), e.data
      FROM e JOIN event_consumers c ON e.kind = ANY (c.kinds)
     WHERE e.kind <> ALL (c.holder_kinds)
        OR (SELECT h.contacts <> '{}' FROM accounts h WHERE h.id = e.account_id)
     ORDER BY e.place`,
}

async function readWantedKinds(db: Pick<Database, 'query'>): Promise<ReadonlySet<EventKind>> {
  const rows = await db.query<{ kind: EventKind }>(WANTED, [])
  return new Set(rows.map(({ kind }) => kind))
}

export async function writeEvents(db: Pick<Database, 'query'>, events: readonly NewEvent[]): Promise<void> {
  await db.query(WRITE, [
    events.map(({ kind }) => kind),
    events.map(({ subject }) => subject),
    events.map(({ accountId }) => accountId ?? null),
    events.map(({ data }) => jsonbOf(data)),
  ])
}

/** jsonb refuses U+0000 and lone surrogates, and clients choose names and texts. */
function jsonbOf(data: object): string {
  const json = JSON.stringify(data)
  if (!json.includes('\\u')) return json
  return JSON.stringify(data, (_name, value) =>
    // biome-ignore lint/suspicious/noControlCharactersInRegex: U+0000 is what is looked for
    typeof value === 'string' ? value.replace(/\u0000|\p{Surrogate}/gu, '\ufffd') : value,
  )
}
