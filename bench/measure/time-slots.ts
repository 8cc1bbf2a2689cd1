/**
 * What happened in which part of a run: equal slots of time, counted from its start.
 *
 * Counts stand where an operation ended, latencies where it was meant to begin: so throughput is what came out of the server in
 * that slot, and latency is what a client met that came in it. Plain data, so that it crosses processes and merges by addition.
 */

import { emptyHistogram, type Histogram, mergeInto, recordValue } from './histogram.ts'

export interface Slot {
  succeeded: number
  failed: number
  /** Answered 503 with Retry-After. */
  refused: number
  /** Given up by the generator before they began. */
  dropped: number
  latency: Histogram
}

export type SlotCount = Exclude<keyof Slot, 'latency'>

/** An hour of seconds; what comes later counts in the last one. */
const MAX_SLOTS = 3600

export class TimeSlots {
  readonly slotMs: number
  readonly slots: Slot[] = []
  readonly #startedAt: number

  /** @param startedAt By `performance.now()`. */
  constructor(slotMs: number, startedAt: number) {
    this.slotMs = slotMs
    this.#startedAt = startedAt
  }

  count(what: SlotCount, at: number): void {
    this.#slot(at)[what]++
  }

  recordLatency(meantAt: number, ms: number): void {
    recordValue(this.#slot(meantAt).latency, ms)
  }

  #slot(at: number): Slot {
    const index = Math.min(Math.max(Math.floor((at - this.#startedAt) / this.slotMs), 0), MAX_SLOTS - 1)
    while (this.slots.length <= index) this.slots.push(emptySlot())
    return this.slots[index]!
  }
}

/** Adds what another process counted in the same slots. */
export function mergeSlots(target: Slot[], source: readonly Slot[]): void {
  source.forEach((slot, index) => {
    target[index] ??= emptySlot()
    mergeSlot(target[index], slot)
  })
}

/** Several slots as one. */
export function sumOfSlots(slots: readonly Slot[]): Slot {
  const sum = emptySlot()
  for (const slot of slots) mergeSlot(sum, slot)
  return sum
}

function mergeSlot(target: Slot, source: Slot): void {
  target.succeeded += source.succeeded
  target.failed += source.failed
  target.refused += source.refused
  target.dropped += source.dropped
  mergeInto(target.latency, source.latency)
}

function emptySlot(): Slot {
  return { succeeded: 0, failed: 0, refused: 0, dropped: 0, latency: emptyHistogram() }
}
