/**
 * Delivers to a consumer outside: claimed in the database, run by an in-process queue.
 *
 * 1. claim a page: another instance leaves its events alone
 * 2. deliver; a crash here delivers again, with the same event id
 * 3. remove what was delivered, a statement for all of a moment; postpone the others, or make them dead letters
 */

import Queue from 'better-queue'
import type { DatabasePool } from 'slonik'
import { limitedSignal, orAborted } from '../shared/lib/time-limit.ts'
import {
  buryDelivery,
  claimDeliveries,
  type Delivery,
  postponeDelivery,
  releaseDeliveries,
  removeDeliveries,
} from '../store/event-store.ts'
import type { ConsumerEvents, ExternalConsumer } from './consumer.ts'

/** Stored for operators; a peer chooses much of it. */
const MAX_ERROR = 500
/** A claim costs a statement, however many it takes. */
const MOST_CLAIMED = 500
/** Other instances shall find some when calls take long. */
const CLAIMED_A_PLACE = 64
/** One after the other in one place of the queue, whose own work costs as much as a call. */
const MOST_IN_TURN = 16
const REMOVE_AFTER_MS = 250
const REMOVE_AGAIN_MS = 1_000

export interface ExternalDeliveryOptions {
  db: DatabasePool
  instanceId: number
  consumer: ExternalConsumer
  events: ConsumerEvents
}

interface Chunk {
  /** The queue joins tasks of one id, so each chunk has its own. */
  id: string
  deliveries: readonly Delivery[]
}

export class ExternalDelivery {
  readonly #options: ExternalDeliveryOptions
  readonly #queue: Queue<Chunk, void>
  readonly #page: number
  readonly #stopping = new AbortController()
  /** Claimed, and waiting or under way. */
  readonly #open = new Set<Delivery>()
  #underWay = 0
  #chunks = 0
  /** To be removed, oldest first. */
  #delivered: Delivery[] = []
  #removing: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #isEnding = false
  #isFull = false
  #onPlace: (() => void) | undefined

  constructor(options: ExternalDeliveryOptions) {
    this.#options = options
    const { concurrency, most = 1 } = options.consumer
    this.#page = Math.min(MOST_CLAIMED, concurrency * Math.max(CLAIMED_A_PLACE, most))
    this.#queue = new Queue<Chunk, void>(
      ({ deliveries }: Chunk, done: (error?: unknown) => void) => {
        this.#work(deliveries).then(() => done(), done)
      },
      { concurrent: concurrency, afterProcessDelay: 0, id: 'id' as never },
    )
  }

  /** Whether the last round left events behind. */
  get isFull(): boolean {
    return this.#isFull
  }

  /** Claims a page, once half of the last one has ended. @returns how many */
  async round(): Promise<number> {
    const { db, consumer, instanceId } = this.#options
    while (this.#open.size > this.#page / 2 && !this.#isEnding) await this.#place()
    if (this.#isEnding) return 0
    const limit = this.#page - this.#open.size
    const running = [...this.#open, ...this.#delivered]
    const deliveries = await claimDeliveries(db, consumer.name, instanceId, { limit, running })
    this.#isFull = deliveries.length === limit
    if (deliveries.length > 0) this.#begin(deliveries)
    return deliveries.length
  }

  /** Attempts under way end or are cut off; what is left stays in the database. */
  async stop(deadlineMs: number): Promise<void> {
    this.#isEnding = true
    this.#onPlace?.()
    const deadline = performance.now() + deadlineMs
    const cut = setTimeout(() => this.#stopping.abort(), Math.max(0, deadlineMs - 500))
    while (this.#underWay > 0 && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 10))
    clearTimeout(cut)
    this.#stopping.abort()
    await new Promise<void>((resolve) => this.#queue.destroy(resolve))
    this.#open.clear()
    await this.#removing
    await this.#remove()
    clearTimeout(this.#timer)
    this.#delivered = []
    const { db, consumer, instanceId } = this.#options
    await releaseDeliveries(db, consumer.name, instanceId)
  }

  #begin(deliveries: readonly Delivery[]): void {
    const { consumer, events } = this.#options
    for (const { event } of deliveries) if (event.misfit !== undefined) events.misfit(consumer.name, event)
    consumer.expect?.(deliveries.map(({ event }) => event))
    const shared = Math.ceil(deliveries.length / (2 * consumer.concurrency))
    const size = consumer.most ?? Math.min(MOST_IN_TURN, shared)
    for (const delivery of deliveries) this.#open.add(delivery)
    for (let at = 0; at < deliveries.length; at += size) {
      const chunk = deliveries.slice(at, at + size)
      this.#queue.push({ id: String(++this.#chunks), deliveries: chunk })
    }
  }

  /** Resolves at the end of an attempt. */
  #place(): Promise<void> {
    return new Promise((resolve) => {
      this.#onPlace = resolve
    })
  }

  async #work(deliveries: readonly Delivery[]): Promise<void> {
    const { deliver, deliverTogether } = this.#options.consumer
    if (!deliverTogether) {
      for (const delivery of deliveries) await this.#attempt([delivery], (signal) => deliver(delivery.event, signal))
      return
    }
    const send = (some: readonly Delivery[]) =>
      this.#attempt(some, (signal) =>
        deliverTogether(
          some.map(({ event }) => event),
          signal,
        ),
      )
    // One event may be the cause: only what is refused alone has failed. No two of them have one subject.
    if (await send(deliveries)) for (const delivery of deliveries) await send([delivery])
  }

  /**
   * A delivery that has not begun at the end of the service is left to the next one.
   * @returns whether several events were refused together, and nothing has come of them yet
   */
  async #attempt(deliveries: readonly Delivery[], call: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    if (this.#isEnding) return false
    const { consumer, events } = this.#options
    this.#underWay++
    const limit = limitedSignal(consumer.timeoutMs, this.#stopping.signal)
    let isRefused = false
    try {
      // A consumer that ignores its signal must not hold its place.
      const failure = await orAborted(call(limit.signal), limit.signal).then(() => undefined, failureOf)
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
      this.#onPlace?.()
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
    if (this.#removing) return
    if (this.#delivered.length >= this.#page) void this.#remove()
    else this.#timer ??= setTimeout(() => void this.#remove(), REMOVE_AFTER_MS)
  }

  /** Never throws: what the database does not take is removed later. */
  #remove(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const { db, consumer, events, instanceId } = this.#options
    const batch = [...this.#delivered]
    if (batch.length === 0) return Promise.resolve()
    this.#removing = removeDeliveries(db, consumer.name, instanceId, batch)
      .then(
        () => {
          this.#delivered = this.#delivered.slice(batch.length)
          return REMOVE_AFTER_MS
        },
        (error) => {
          events.failed(consumer.name, error)
          return REMOVE_AGAIN_MS
        },
      )
      .then((pauseMs) => {
        this.#removing = undefined
        if (this.#delivered.length > 0) this.#timer ??= setTimeout(() => void this.#remove(), pauseMs)
      })
    return this.#removing
  }
}

const failureOf = (error: unknown) => ({ error })
