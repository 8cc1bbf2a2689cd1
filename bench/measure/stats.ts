/** What one generator process counts while it runs, and how the counts of several become one. */

import type { Traffic } from '../client/connection.ts'
import { Failure } from '../client/failure.ts'
import { emptyHistogram, type Histogram, mergeInto, recordValue } from './histogram.ts'

export interface FailureCount {
  count: number
  /** The first one's sentence. */
  example: string
}

/** Plain data: crosses processes as it is. */
export interface StatsSnapshot extends Traffic {
  /** Latency of whole operations that succeeded. */
  operations: Histogram
  /** Of `operations`, those that ended before the time was up; all of them when a count ended the run. */
  withinWindow: number
  steps: [name: string, histogram: Histogram][]
  failures: [kind: string, count: FailureCount][]
  /** JWS requests sent, repeated ones included. */
  signedRequests: number
  badNonceRetries: number
}

export class RunStats implements StatsSnapshot {
  sentBytes = 0
  receivedBytes = 0
  operations = emptyHistogram()
  withinWindow = 0
  signedRequests = 0
  badNonceRetries = 0
  failureCount = 0
  readonly #steps = new Map<string, Histogram>()
  readonly #failures = new Map<string, FailureCount>()

  recordStep(name: string, ms: number): void {
    recordValue(this.#step(name), ms)
  }

  /** Times by `performance.now()`; `windowEndsAt` is infinite when a count ends the run. */
  recordOperation(startedAt: number, endedAt: number, windowEndsAt: number): void {
    recordValue(this.operations, endedAt - startedAt)
    if (endedAt <= windowEndsAt) this.withinWindow++
  }

  recordFailure(error: unknown): void {
    const kind = error instanceof Failure ? error.kind : 'generator'
    const example = error instanceof Error ? error.message : String(error)
    this.#addFailure(kind, { count: 1, example })
  }

  add(other: StatsSnapshot): void {
    mergeInto(this.operations, other.operations)
    for (const [name, histogram] of other.steps) mergeInto(this.#step(name), histogram)
    this.addFailures(other.failures)
    this.withinWindow += other.withinWindow
    this.signedRequests += other.signedRequests
    this.badNonceRetries += other.badNonceRetries
    this.sentBytes += other.sentBytes
    this.receivedBytes += other.receivedBytes
  }

  addFailures(failures: readonly [kind: string, count: FailureCount][]): void {
    for (const [kind, failure] of failures) this.#addFailure(kind, failure)
  }

  /** The same object counts on from zero: connections hold on to it. */
  reset(): void {
    this.sentBytes = this.receivedBytes = this.withinWindow = 0
    this.signedRequests = this.badNonceRetries = this.failureCount = 0
    this.operations = emptyHistogram()
    this.#steps.clear()
    this.#failures.clear()
  }

  get steps(): [string, Histogram][] {
    return [...this.#steps]
  }

  get failures(): [string, FailureCount][] {
    return [...this.#failures].sort(([, a], [, b]) => b.count - a.count)
  }

  /** The form that crosses processes: getters and private fields would not. */
  snapshot(): StatsSnapshot {
    const { sentBytes, receivedBytes, operations, withinWindow, steps, failures, signedRequests, badNonceRetries } =
      this
    return { sentBytes, receivedBytes, operations, withinWindow, steps, failures, signedRequests, badNonceRetries }
  }

  #step(name: string): Histogram {
    const known = this.#steps.get(name)
    if (known) return known
    const histogram = emptyHistogram()
    this.#steps.set(name, histogram)
    return histogram
  }

  #addFailure(kind: string, { count, example }: FailureCount): void {
    this.failureCount += count
    const known = this.#failures.get(kind)
    if (known) known.count += count
    else this.#failures.set(kind, { count, example })
  }
}
