/**
 * Delivers to a consumer outside: claimed in the database, run by an in-process queue.
 *
 * 1. claim: another instance leaves the event alone
 * 2. deliver; a crash here delivers again, with the same event id
 * 3. remove the delivery, with others that end meanwhile; postpone it, or make it a dead letter
 */

import Queue from 'better-queue'
import type { DatabasePool } from 'slonik'
import { Batcher } from '../../shared/lib/batcher.ts'
import {
  buryDelivery,
  claimDeliveries,
  type Delivery,
  postponeDelivery,
  releaseDeliveries,
  removeDeliveries,
} from '../../store/event-store.ts'
import type { ConsumerEvents, ExternalConsumer } from './consumer.ts'

/** Stored for operators; a peer chooses much of it. */
const MAX_ERROR = 500

export interface ExternalDeliveryOptions {
  db: DatabasePool
  instanceId: number
  consumer: ExternalConsumer
  events: ConsumerEvents
}

export class ExternalDelivery {
  readonly #options: ExternalDeliveryOptions
  readonly #queue: Queue<Delivery, void>
  readonly #stopping = new AbortController()
  readonly #remove: Batcher<Delivery, undefined>
  readonly #running = new Set<Delivery>()
  /** Whether a claim may be left behind, because the database went away in the middle. */
  #isUnsettled = false
  #onPlace: (() => void) | undefined

  constructor(options: ExternalDeliveryOptions) {
    this.#options = options
    const { db, consumer } = options
    const { concurrency } = consumer
    this.#remove = new Batcher(
      async (ended: readonly Delivery[]) => {
        await removeDeliveries(db, consumer.name, ended)
        return ended.map(() => undefined)
      },
      {
        ...{ maxBatch: concurrency, maxConcurrent: 1, maxWaiting: concurrency, maxOfKey: 1 },
        ...{ maxStandstillMs: Number.POSITIVE_INFINITY, retryable: () => false },
      },
    )
    this.#queue = new Queue<Delivery, void>(
      (delivery: Delivery, done: (error?: unknown) => void) => {
        this.#attempt(delivery).then(() => done(), done)
      },
      { concurrent: concurrency, afterProcessDelay: 0, id: 'sequence' as never },
    )
  }

  get running(): number {
    return this.#running.size
  }

  /** Before the first round: what a replaced thread of this instance had claimed. */
  release(): Promise<void> {
    return this.#release([])
  }

  /** Claims as many as there are free places, and waits for some when there are few. @returns how many */
  async round(): Promise<number> {
    const { db, consumer, instanceId } = this.#options
    // One claim for several: a quarter of the places.
    while (consumer.concurrency - this.running < Math.ceil(consumer.concurrency / 4)) await this.#place()
    const free = consumer.concurrency - this.running
    if (this.#stopping.signal.aborted) return 0
    if (this.#isUnsettled) {
      this.#isUnsettled = false
      await this.#release([...this.#running])
    }
    const deliveries = await claimDeliveries(db, consumer.name, instanceId, free).catch((error) => {
      // It may have been committed, and its answer lost.
      this.#isUnsettled = true
      throw error
    })
    for (const delivery of deliveries) {
      this.#running.add(delivery)
      this.#queue.push(delivery)
    }
    return deliveries.length
  }

  /** Attempts under way end or are cut off; what is left stays in the database. */
  async stop(deadlineMs: number): Promise<void> {
    const deadline = performance.now() + deadlineMs
    const cut = setTimeout(() => this.#stopping.abort(), Math.max(0, deadlineMs - 500))
    while (this.running > 0 && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 10))
    clearTimeout(cut)
    this.#stopping.abort()
    await new Promise<void>((resolve) => this.#queue.destroy(resolve))
    await this.release()
  }

  /** What this instance has claimed, but for these. */
  async #release(running: readonly Delivery[]): Promise<void> {
    const { db, consumer, instanceId } = this.#options
    await releaseDeliveries(db, consumer.name, instanceId, running).catch((error) => {
      this.#isUnsettled = true
      throw error
    })
  }

  /** Resolves at the end of an attempt. */
  #place(): Promise<void> {
    return new Promise((resolve) => {
      this.#onPlace = resolve
    })
  }

  async #attempt(delivery: Delivery): Promise<void> {
    const { consumer, events } = this.#options
    const { event } = delivery
    try {
      const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(consumer.timeoutMs)])
      const failure = await withSignal(consumer.deliver(event, signal), signal).then(() => undefined, failureOf)
      if (failure) await this.#failed(delivery, failure.error)
      else {
        await this.#remove.run(delivery)
        events.delivered(consumer.name, event)
      }
    } catch (error) {
      // No fault of the consumer: it is delivered again.
      this.#isUnsettled = true
      events.failed(consumer.name, error)
    } finally {
      this.#running.delete(delivery)
      this.#onPlace?.()
    }
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
}

const failureOf = (error: unknown) => ({ error })

/** A consumer that ignores its signal must not hold its place. */
function withSignal(work: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    work.then(resolve, reject)
  })
}
