/**
 * Delivers events to every consumer of this instance until it is stopped.
 *
 * A consumer in the database takes a batch in one transaction. For a consumer outside, events are claimed in the
 * database, and run by an in-process queue:
 *
 * 1. claim a page: another instance leaves its events alone
 * 2. deliver; a crash here delivers again, with the same event id
 * 3. remove what was delivered, a statement for all of a moment; postpone the others, or make them dead letters
 *
 * The queue bounds the attempts at the same time, and gathers the events of one. Order and retries are in the database.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import Queue from 'better-queue'
import type { DatabasePool } from 'slonik'
import { messageOf } from '../shared/lib/errors.ts'
import { IdleSignal, limitedSignal, orAborted } from '../shared/lib/time-limit.ts'
import { removeOldCounts } from '../store/event-statistics-store.ts'
import {
  type Attempted,
  type ConsumerEvents,
  DATABASE_LOOK_MS,
  type DatabaseConsumer,
  type ExternalConsumer,
  LOOK_MS,
  REGISTRATION_MS,
} from './consumer.ts'
import {
  buryDelivery,
  claimDeliveries,
  type Delivery,
  postponeDelivery,
  registerConsumer,
  releaseDeliveries,
  removeDeliveries,
  removeUnseenConsumers,
  takeDeliveries,
} from './event-store.ts'

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

/** Stored for operators; a peer chooses much of it. */
const MAX_ERROR = 500
/** A claim costs a statement, however many it takes. */
const MOST_CLAIMED = 500
/** Other instances shall find some when calls take long. */
const CLAIMED_A_PLACE = 64
/** The queue takes a page event by event, and an attempt waits this long for more of it. */
const GATHER_MS = 10
const REMOVE_AFTER_MS = 250
const REMOVE_AGAIN_MS = 1_000
/** Attempts that are cut off get this long before the deadline. */
const CUT_OFF_MS = 500

interface ExternalDeliveryOptions extends Pick<EventDeliveryOptions, 'db' | 'instanceId'> {
  consumer: ExternalConsumer
  events: ConsumerEvents
}

export class ExternalDelivery {
  readonly #options: ExternalDeliveryOptions
  readonly #queue: Queue<Delivery, void>
  readonly #page: number
  readonly #stopping = new AbortController()
  /** Claimed deliveries that wait or are under way. */
  readonly #open = new Set<Delivery>()
  #underWay = 0
  /** An attempt has ended, or the service ends. */
  readonly #ended = new IdleSignal()
  /** Deliveries to be removed, oldest first. */
  #delivered: Delivery[] = []
  readonly #remover: NodeJS.Timeout
  #removing: Promise<void> | undefined
  #isEnding = false
  #isFull = false

  constructor(options: ExternalDeliveryOptions) {
    this.#options = options
    const { concurrency: concurrent, most: batchSize = 1 } = options.consumer
    this.#page = Math.min(MOST_CLAIMED, concurrent * Math.max(CLAIMED_A_PLACE, batchSize))
    this.#queue = new Queue<Delivery, void>(
      (taken: Delivery | Delivery[], done: () => void) => void this.#work([taken].flat()).then(done, done),
      { concurrent, batchSize, batchDelay: GATHER_MS },
    )
    this.#remover = setInterval(() => void this.#remove(), REMOVE_AFTER_MS)
  }

  /** Whether the last round left events behind. */
  get isFull(): boolean {
    return this.#isFull
  }

  /** Claims a page, once half of the last one has ended. @returns how many */
  async round(): Promise<number> {
    const { db, consumer, instanceId, events } = this.#options
    while (this.#open.size > this.#page / 2 && !this.#isEnding) await this.#ended.wait()
    if (this.#isEnding) return 0
    const limit = this.#page - this.#open.size
    const running = [...this.#open, ...this.#delivered]
    const deliveries = await claimDeliveries(db, consumer.name, instanceId, { limit, running })
    this.#isFull = deliveries.length === limit
    if (deliveries.length > 0) consumer.expect?.(deliveries.map(({ event }) => event))
    for (const delivery of deliveries) {
      if (delivery.event.misfit !== undefined) events.misfit(consumer.name, delivery.event)
      this.#open.add(delivery)
      this.#queue.push(delivery)
    }
    return deliveries.length
  }

  /** Attempts under way end or are cut off; what is left stays in the database. */
  async stop(deadlineMs: number): Promise<void> {
    this.#isEnding = true
    this.#queue.pause()
    this.#ended.notify()
    const deadline = performance.now() + deadlineMs
    const cut = setTimeout(() => this.#stopping.abort(), Math.max(0, deadlineMs - CUT_OFF_MS))
    for (let leftMs = deadlineMs; this.#underWay > 0 && leftMs > 0; leftMs = deadline - performance.now())
      await this.#ended.wait(leftMs)
    clearTimeout(cut)
    this.#stopping.abort()
    this.#open.clear()
    clearInterval(this.#remover)
    await this.#removing
    await this.#remove()
    this.#delivered = []
    const { db, consumer, instanceId } = this.#options
    await releaseDeliveries(db, consumer.name, instanceId)
  }

  /** One of several events may be the cause: only what is refused alone has failed. No two of them have one subject. */
  async #work(deliveries: readonly Delivery[]): Promise<void> {
    if (await this.#attempt(deliveries)) for (const delivery of deliveries) await this.#attempt([delivery])
  }

  /**
   * A delivery that has not begun at the end of the service is left to the next one.
   * @returns whether several events were refused together, and nothing has come of them yet
   */
  async #attempt(deliveries: readonly Delivery[]): Promise<boolean> {
    if (this.#isEnding) return false
    const { consumer, events } = this.#options
    this.#underWay++
    const limit = limitedSignal(consumer.timeoutMs, this.#stopping.signal)
    let isRefused = false
    try {
      const attempted = deliveries.map(({ event }) => event) as unknown as Attempted
      // A consumer that ignores its signal must not hold its place.
      const attempt = orAborted(consumer.deliver(attempted, limit.signal), limit.signal)
      const failure = await attempt.then(() => undefined, failureOf)
      if (!failure) this.#removeLater(deliveries)
      else if (deliveries.length > 1 && consumer.isRefusal?.(failure.error)) isRefused = true
      else for (const delivery of deliveries) await this.#failed(delivery, failure.error)
    } catch (error) {
      // No fault of the consumer: it is claimed and delivered again.
      events.failed(consumer.name, error)
    } finally {
      limit.clear()
      if (!isRefused) for (const delivery of deliveries) this.#open.delete(delivery)
      this.#underWay--
      this.#ended.notify()
    }
    return isRefused
  }

  async #failed(delivery: Delivery, error: unknown): Promise<void> {
    const { consumer, events, db } = this.#options
    // Cut off by the end of the service: no fault of the consumer.
    if (this.#stopping.signal.aborted) return
    const text = messageOf(error).slice(0, MAX_ERROR)
    const delayMs = consumer.retryDelayMs(delivery.attempts + 1, error)
    if (delayMs === undefined) {
      await buryDelivery(db, consumer.name, delivery, text)
      events.buried(consumer.name, delivery.event, error)
    } else {
      await postponeDelivery(db, consumer.name, delivery, { error: text, delayMs })
      events.postponed(consumer.name, delivery.event, error)
    }
  }

  #removeLater(deliveries: readonly Delivery[]): void {
    const { consumer, events } = this.#options
    for (const { event } of deliveries) events.delivered(consumer.name, event)
    this.#delivered.push(...deliveries)
    if (this.#delivered.length >= this.#page) void this.#remove()
  }

  /** One statement at a time. Never throws: what the database does not take is removed later. */
  #remove(): Promise<void> {
    this.#removing ??= this.#removeAll().finally(() => {
      this.#removing = undefined
    })
    return this.#removing
  }

  async #removeAll(): Promise<void> {
    const { db, consumer, events, instanceId } = this.#options
    const batch = [...this.#delivered]
    if (batch.length === 0) return
    try {
      await removeDeliveries(db, consumer.name, instanceId, batch)
      this.#delivered = this.#delivered.slice(batch.length)
    } catch (error) {
      events.failed(consumer.name, error)
      // Only the stop rejects it, which then tries once more.
      await sleep(REMOVE_AGAIN_MS, undefined, { signal: this.#stopping.signal }).catch(() => undefined)
    }
  }
}

const failureOf = (error: unknown) => ({ error })
