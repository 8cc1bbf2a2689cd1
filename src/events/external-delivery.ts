/**
 * Delivers to a consumer outside: claimed in the database, run by an in-process queue.
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
import { IdleSignal, limitedSignal, orAborted } from '../shared/lib/time-limit.ts'
import type { Attempted, ConsumerEvents, ExternalConsumer } from './consumer.ts'
import {
  buryDelivery,
  claimDeliveries,
  type Delivery,
  postponeDelivery,
  releaseDeliveries,
  removeDeliveries,
} from './event-store.ts'

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

interface ExternalDeliveryOptions {
  db: DatabasePool
  instanceId: number
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
    const text = (error instanceof Error ? error.message : String(error)).slice(0, MAX_ERROR)
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
