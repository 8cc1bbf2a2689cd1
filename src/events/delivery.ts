/** Delivers events to every consumer of this instance until it is stopped. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { DatabasePool } from 'slonik'
import { removeOldCounts } from '../store/event-statistics-store.ts'
import {
  type ConsumerEvents,
  DATABASE_LOOK_MS,
  type DatabaseConsumer,
  type ExternalConsumer,
  LOOK_MS,
  REGISTRATION_MS,
} from './consumer.ts'
import { registerConsumer, removeUnseenConsumers, takeDeliveries } from './event-store.ts'
import { ExternalDelivery } from './external-delivery.ts'

export interface EventDeliveryOptions {
  db: DatabasePool
  instanceId: number
  database: readonly DatabaseConsumer[]
  external: readonly ExternalConsumer[]
  events: ConsumerEvents & {
    /** Consumers that no instance has any more, removed with what waited for them. */
    abandoned(names: readonly string[]): void
  }
}

interface Round {
  taken: number
  /** Whether to look again at once. */
  again: boolean
}

/** Longer than any maintenance of all instances together. */
const ABANDONED_DAYS = 7
/** Events that a consumer in the database takes in one transaction. */
const BATCH = 200

export class EventDelivery {
  readonly #options: EventDeliveryOptions
  readonly #database: DatabaseConsumer[]
  readonly #external: readonly ExternalDelivery[]
  readonly #loops: Promise<void>[] = []
  readonly #stopping = new AbortController()

  constructor(options: EventDeliveryOptions) {
    this.#options = options
    this.#database = [...options.database]
    const { db, instanceId, events } = options
    this.#external = options.external.map((consumer) => new ExternalDelivery({ db, instanceId, consumer, events }))
  }

  /** Returns when the writers know what is wanted. */
  async start(): Promise<void> {
    await this.#register()
    const { external } = this.#options
    for (const consumer of this.#database) this.#take(consumer)
    this.#external.forEach((delivery, index) => {
      this.#loop(external[index]?.name ?? '', LOOK_MS, async () => {
        const taken = await delivery.round()
        return { taken, again: delivery.isFull }
      })
    })
    this.#loops.push(this.#keepRegistered())
  }

  /** A consumer that the configuration asks for later. */
  async add(consumer: DatabaseConsumer): Promise<void> {
    this.#database.push(consumer)
    await registerConsumer(this.#options.db, consumer.name, consumer.kinds, consumer.holderKinds)
    this.#take(consumer)
  }

  /** Deliveries under way end, or are cut off at the deadline and repeated later. */
  async stop(deadlineMs: number): Promise<void> {
    this.#stopping.abort()
    await Promise.all([...this.#loops, ...this.#external.map((delivery) => delivery.stop(deadlineMs))])
  }

  #take(consumer: DatabaseConsumer): void {
    this.#loop(consumer.name, DATABASE_LOOK_MS, async () => {
      const taken = await takeBatch(this.#options.db, consumer, this.#options.events)
      return { taken, again: taken === BATCH }
    })
  }

  #loop(name: string, { shortest, longest }: typeof LOOK_MS, round: () => Promise<Round>): void {
    const run = async () => {
      let pauseMs = shortest
      while (!this.#stopping.signal.aborted) {
        const { taken, again } = await round().catch((error) => {
          this.#options.events.failed(name, error)
          return { taken: 0, again: false }
        })
        pauseMs = taken > 0 ? shortest : Math.min(longest, pauseMs * 2)
        if (!again) await this.#pause(pauseMs)
      }
    }
    this.#loops.push(run())
  }

  async #keepRegistered(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      await this.#pause(REGISTRATION_MS)
      if (!this.#stopping.signal.aborted)
        await this.#register().catch((error) => this.#options.events.failed('registration', error))
    }
  }

  async #register(): Promise<void> {
    const { db, external, events } = this.#options
    for (const { name, kinds, holderKinds } of [...this.#database, ...external])
      await registerConsumer(db, name, kinds, holderKinds)
    const abandoned = await removeUnseenConsumers(db, ABANDONED_DAYS)
    if (abandoned.length > 0) events.abandoned(abandoned)
    await removeOldCounts(db)
  }

  async #pause(ms: number): Promise<void> {
    // Only the stop rejects it, and the callers check for it.
    await sleep(ms, undefined, { signal: this.#stopping.signal }).catch(() => undefined)
  }
}

/** For a consumer that writes to the database alone. @returns how many events it took; a full batch means that more wait */
export function takeBatch(
  db: DatabasePool,
  consumer: DatabaseConsumer,
  { misfit }: Pick<ConsumerEvents, 'misfit'>,
): Promise<number> {
  return db.transaction(async (tx) => {
    const events = (await takeDeliveries(tx, consumer.name, BATCH)).map(({ event }) => event)
    if (events.length === 0) return 0
    for (const event of events) if (event.misfit !== undefined) misfit(consumer.name, event)
    await consumer.take(events, tx)
    return events.length
  })
}
