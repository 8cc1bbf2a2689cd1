/** The counts of a generator process, and how the counts of several processes become one. */

import { build, decodeFromCompressedBase64, encodeIntoCompressedBase64, type Histogram } from 'hdr-histogram-js'
import { Failure, isRefusal } from '../client/http.ts'

export type { Histogram }

/** Milliseconds. */
export interface Latency {
  count: number
  mean: number
  p50: number
  p90: number
  p95: number
  p99: number
  max: number
}

/** Where a distribution is drawn: even steps on a scale of nines, because the tail matters. */
export const CURVE_PERCENTS: readonly number[] = [
  0, 10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 92, 94, 95, 96, 97, 98, 98.5, 99, 99.2, 99.4, 99.6, 99.8, 99.9, 99.92,
  99.94, 99.96, 99.98, 99.99, 100,
]

/** One hour; what takes longer counts as an hour. */
const MOST_MICROS = 3_600_000_000

export function emptyHistogram(): Histogram {
  const digits = { numberOfSignificantValueDigits: 2, lowestDiscernibleValue: 1, highestTrackableValue: 2 } as const
  return build({ bitBucketSize: 32, autoResize: true, ...digits })
}

export function recordMs(histogram: Histogram, ms: number): void {
  histogram.recordValue(Math.min(Math.max(Math.round(ms * 1000), 0), MOST_MICROS))
}

/** @param percent 0 to 100 @returns milliseconds; 0 for an empty histogram */
export function percentileMs(histogram: Histogram, percent: number): number {
  return histogram.totalCount === 0 ? 0 : histogram.getValueAtPercentile(percent) / 1000
}

export function latencyOf(histogram: Histogram): Latency {
  const at = (percent: number) => percentileMs(histogram, percent)
  const count = histogram.totalCount
  const [mean, max] = count === 0 ? [0, 0] : [histogram.mean / 1000, histogram.maxValue / 1000]
  return { count, mean, p50: at(50), p90: at(90), p95: at(95), p99: at(99), max }
}

/** Milliseconds at `CURVE_PERCENTS`. */
export function curveOf(histogram: Histogram): number[] {
  return CURVE_PERCENTS.map((percent) => percentileMs(histogram, percent))
}

/** Makes a text, which crosses processes. */
function packHistogram(histogram: Histogram): string {
  return encodeIntoCompressedBase64(histogram)
}

function addPacked(target: Histogram, packed: string): void {
  target.add(decodeFromCompressedBase64(packed, 32, false))
}

/** By kind; the example is the first one's sentence. */
export type FailureCounts = [kind: string, count: { count: number; example: string }][]

const noCounts = () => ({
  /** Operations that succeeded before the time was up; all of them when a count ended the run. */
  withinWindow: 0,
  /** Open loop: arrivals, and those that found no connection in time. */
  offered: 0,
  dropped: 0,
  /** Operations that ended with 503 and Retry-After. */
  refused: 0,
  failed: 0,
  signedRequests: 0,
  badNonceRetries: 0,
})
type Counts = ReturnType<typeof noCounts>

const noEnds = () => ({ succeeded: 0, failed: 0, refused: 0, dropped: 0 })

/** A part of the run's time. Counts stand where an operation ended, latencies where it was due. */
export type Slot = ReturnType<typeof noEnds> & { latency: Histogram }

/** Plain data, for the channel between processes. */
export interface StatsSnapshot {
  counts: Counts
  histograms: [name: string, packed: string][]
  failures: FailureCounts
  slots: (Omit<Slot, 'latency'> & { latency: string })[]
}

export const DEFAULT_SLOT_MS = 1000
/** An hour of seconds; what comes later counts in the last one. */
const MAX_SLOTS = 3600

export class RunStats {
  counts = noCounts()
  /** Whole operations that succeeded, from when they were due. */
  operations = emptyHistogram()
  /** How late the generator itself noticed arrivals. */
  lag = emptyHistogram()
  /** By step; refusals as "503 to <step>". */
  readonly steps = new Map<string, Histogram>()
  readonly #failures = new Map<string, FailureCounts[0][1]>()
  slots: Slot[] = []
  #slotMs = DEFAULT_SLOT_MS
  #startedAt = 0

  recordStep(name: string, ms: number): void {
    recordMs(this.#step(name), ms)
  }

  /** Times by `performance.now()`; `windowEndsAt` is infinite when a count ends the run. */
  recordOperation(dueAt: number, endedAt: number, windowEndsAt: number): void {
    recordMs(this.operations, endedAt - dueAt)
    recordMs(this.#slot(dueAt).latency, endedAt - dueAt)
    this.#slot(endedAt).succeeded++
    if (endedAt <= windowEndsAt) this.counts.withinWindow++
  }

  recordArrival(lagMs: number): void {
    this.counts.offered++
    recordMs(this.lag, lagMs)
  }

  recordDropped(now: number): void {
    this.counts.dropped++
    this.#slot(now).dropped++
  }

  /** An operation that was refused with Retry-After, or failed. */
  recordFailure(error: unknown): void {
    const slot = this.#slot(performance.now())
    if (isRefusal(error)) {
      this.counts.refused++
      slot.refused++
      return
    }
    slot.failed++
    const kind = error instanceof Failure ? error.kind : 'generator'
    this.addFailures([[kind, { count: 1, example: error instanceof Error ? error.message : String(error) }]])
  }

  addFailures(failures: FailureCounts): void {
    for (const [kind, { count, example }] of failures) {
      this.counts.failed += count
      const known = this.#failures.get(kind)
      this.#failures.set(kind, { count: count + (known?.count ?? 0), example: known?.example ?? example })
    }
  }

  /** Starts from zero, now. It resets in place, because clients hold on to the object. */
  reset(slotMs = DEFAULT_SLOT_MS): void {
    this.counts = noCounts()
    this.operations = emptyHistogram()
    this.lag = emptyHistogram()
    this.steps.clear()
    this.#failures.clear()
    this.slots = []
    this.#slotMs = slotMs
    this.#startedAt = performance.now()
  }

  get failures(): FailureCounts {
    return [...this.#failures].sort(([, a], [, b]) => b.count - a.count)
  }

  snapshot(): StatsSnapshot {
    const all: [string, Histogram][] = [['', this.operations], ['lag', this.lag], ...this.steps]
    return {
      counts: this.counts,
      histograms: all.map(([name, histogram]) => [name, packHistogram(histogram)]),
      failures: this.failures,
      slots: this.slots.map((slot) => ({ ...slot, latency: packHistogram(slot.latency) })),
    }
  }

  add({ counts: { failed: _, ...counts }, histograms, failures, slots }: StatsSnapshot): void {
    addTo(this.counts, counts)
    this.addFailures(failures)
    for (const [name, packed] of histograms)
      addPacked(name === '' ? this.operations : name === 'lag' ? this.lag : this.#step(name), packed)
    for (const [index, { latency, ...ends }] of slots.entries()) {
      const own = this.#slotNumber(index)
      addTo(own, ends)
      addPacked(own.latency, latency)
    }
  }

  #step(name: string): Histogram {
    const histogram = this.steps.get(name) ?? emptyHistogram()
    this.steps.set(name, histogram)
    return histogram
  }

  #slot(at: number): Slot {
    return this.#slotNumber(Math.floor((at - this.#startedAt) / this.#slotMs))
  }

  #slotNumber(number: number): Slot {
    const index = Math.min(Math.max(number, 0), MAX_SLOTS - 1)
    while (this.slots.length <= index) this.slots.push({ ...noEnds(), latency: emptyHistogram() })
    return this.slots[index]!
  }
}

/** Several slots as one. */
export function sumOfSlots(slots: readonly Slot[]): Slot {
  const sum: Slot = { ...noEnds(), latency: emptyHistogram() }
  for (const { latency, ...ends } of slots) {
    addTo(sum, ends)
    sum.latency.add(latency)
  }
  return sum
}

function addTo<K extends string>(sums: Record<NoInfer<K>, number>, others: Readonly<Record<K, number>>): void {
  for (const name of Object.keys(others) as K[]) sums[name] += others[name]
}
