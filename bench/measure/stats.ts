/** What one generator process counts while it runs, and how the counts of several become one. */

import type { Traffic } from '../client/connection.ts'
import { Failure, isRefusal } from '../client/failure.ts'
import { emptyHistogram, type Histogram, mergeInto, recordValue } from './histogram.ts'
import { mergeSlots, type Slot, TimeSlots } from './time-slots.ts'

export interface FailureCount {
  count: number
  /** The first one's sentence. */
  example: string
}

/** Plain data: crosses processes as it is. */
export interface StatsSnapshot extends Traffic {
  /** Latency of whole operations that succeeded, from when they were meant to begin. */
  operations: Histogram
  /** Of `operations`, those that ended before the time was up; all of them when a count ended the run. */
  withinWindow: number
  /** Open loop: arrivals; closed loop: 0. */
  offered: number
  /** Open loop: arrivals that found no connection in time and went away. */
  dropped: number
  /** Operations that ended with 503 and Retry-After. */
  refused: number
  /** How late the generator itself was to notice an arrival. */
  lag: Histogram
  steps: [name: string, histogram: Histogram][]
  /** Answers 503 by step. */
  refusedSteps: [name: string, histogram: Histogram][]
  failures: [kind: string, count: FailureCount][]
  /** JWS requests sent, repeated ones included. */
  signedRequests: number
  badNonceRetries: number
  slots: Slot[]
}

export const DEFAULT_SLOT_MS = 1000

export class RunStats implements StatsSnapshot {
  sentBytes = 0
  receivedBytes = 0
  operations = emptyHistogram()
  lag = emptyHistogram()
  withinWindow = 0
  offered = 0
  dropped = 0
  refused = 0
  signedRequests = 0
  badNonceRetries = 0
  failureCount = 0
  readonly #steps = new Map<string, Histogram>()
  readonly #refusedSteps = new Map<string, Histogram>()
  readonly #failures = new Map<string, FailureCount>()
  #time = new TimeSlots(DEFAULT_SLOT_MS, 0)

  recordStep(name: string, ms: number): void {
    recordValue(histogramIn(this.#steps, name), ms)
  }

  recordRefusedStep(name: string, ms: number): void {
    recordValue(histogramIn(this.#refusedSteps, name), ms)
  }

  /** Times by `performance.now()`; `windowEndsAt` is infinite when a count ends the run. */
  recordOperation(meantAt: number, endedAt: number, windowEndsAt: number): void {
    recordValue(this.operations, endedAt - meantAt)
    this.#time.recordLatency(meantAt, endedAt - meantAt)
    this.#time.count('succeeded', endedAt)
    if (endedAt <= windowEndsAt) this.withinWindow++
  }

  recordArrival(lagMs: number): void {
    this.offered++
    recordValue(this.lag, lagMs)
  }

  recordDropped(now: number): void {
    this.dropped++
    this.#time.count('dropped', now)
  }

  /** An operation that did not come to its end: refused with Retry-After, or failed. */
  recordFailure(error: unknown): void {
    const refused = isRefusal(error)
    this.#time.count(refused ? 'refused' : 'failed', performance.now())
    if (refused) {
      this.refused++
      return
    }
    const kind = error instanceof Failure ? error.kind : 'generator'
    const example = error instanceof Error ? error.message : String(error)
    this.#addFailure(kind, { count: 1, example })
  }

  add(other: StatsSnapshot): void {
    mergeInto(this.operations, other.operations)
    mergeInto(this.lag, other.lag)
    for (const [name, histogram] of other.steps) mergeInto(histogramIn(this.#steps, name), histogram)
    for (const [name, histogram] of other.refusedSteps) mergeInto(histogramIn(this.#refusedSteps, name), histogram)
    this.addFailures(other.failures)
    mergeSlots(this.#time.slots, other.slots)
    for (const name of SUMS) this[name] += other[name]
  }

  addFailures(failures: readonly [kind: string, count: FailureCount][]): void {
    for (const [kind, failure] of failures) this.#addFailure(kind, failure)
  }

  /** The same object counts on from zero, and from now: connections hold on to it. */
  reset(slotMs = DEFAULT_SLOT_MS): void {
    for (const name of SUMS) this[name] = 0
    this.failureCount = 0
    this.operations = emptyHistogram()
    this.lag = emptyHistogram()
    this.#time = new TimeSlots(slotMs, performance.now())
    this.#steps.clear()
    this.#refusedSteps.clear()
    this.#failures.clear()
  }

  get steps(): [string, Histogram][] {
    return [...this.#steps]
  }

  get refusedSteps(): [string, Histogram][] {
    return [...this.#refusedSteps]
  }

  get failures(): [string, FailureCount][] {
    return [...this.#failures].sort(([, a], [, b]) => b.count - a.count)
  }

  get slots(): Slot[] {
    return this.#time.slots
  }

  /** The form that crosses processes: getters and private fields would not. */
  snapshot(): StatsSnapshot {
    const { operations, lag, steps, refusedSteps, failures, slots } = this
    const sums = Object.fromEntries(SUMS.map((name) => [name, this[name]])) as Record<(typeof SUMS)[number], number>
    return { ...sums, operations, lag, steps, refusedSteps, failures, slots }
  }

  #addFailure(kind: string, { count, example }: FailureCount): void {
    this.failureCount += count
    const known = this.#failures.get(kind)
    if (known) known.count += count
    else this.#failures.set(kind, { count, example })
  }
}

/** What adds up by itself. */
const SUMS = [
  ...(['sentBytes', 'receivedBytes', 'withinWindow', 'offered', 'dropped', 'refused'] as const),
  ...(['signedRequests', 'badNonceRetries'] as const),
] as const

function histogramIn(map: Map<string, Histogram>, name: string): Histogram {
  const known = map.get(name)
  if (known) return known
  const histogram = emptyHistogram()
  map.set(name, histogram)
  return histogram
}
