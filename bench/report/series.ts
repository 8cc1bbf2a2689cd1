/** Latencies, their distribution and what happened over time, as the JSON file holds them. */

import { type Histogram, mean, percentile } from '../measure/histogram.ts'
import type { Role } from '../measure/server-cpu.ts'
import type { ServerSample } from '../measure/server-sampler.ts'
import type { Slot } from '../measure/time-slots.ts'

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

/** One slot of time. Counts stand where operations ended, latencies where they were meant to begin. */
export interface SeriesSlot {
  /** Seconds from the start of the measurement to the start of the slot. */
  at: number
  succeeded: number
  failed: number
  refused: number
  dropped: number
  p50: number
  p99: number
  max: number
}

export interface SeriesSample {
  /** Seconds from the start. */
  at: number
  /** Cores in use since the sample before. */
  cores: Partial<Record<Role, number>>
  residentBytes: Partial<Record<Role, number>>
}

export interface Series {
  slotSeconds: number
  slots: SeriesSlot[]
  server: SeriesSample[]
}

/** Where a distribution is drawn: evenly on a scale of nines, as its tail is what matters. */
export const CURVE_FRACTIONS: readonly number[] = [
  ...[0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.875, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97],
  ...[0.98, 0.985, 0.99, 0.992, 0.994, 0.996, 0.998, 0.999, 0.9992, 0.9994, 0.9996, 0.9998, 0.9999, 1],
]

export function latencyOf(histogram: Histogram): Latency {
  const at = (fraction: number) => percentile(histogram, fraction)
  const { count, max } = histogram
  return { count, mean: mean(histogram), p50: at(0.5), p90: at(0.9), p95: at(0.95), p99: at(0.99), max }
}

export function curveOf(histogram: Histogram): number[] {
  return CURVE_FRACTIONS.map((fraction) => round(percentile(histogram, fraction)))
}

export function buildSeries(slots: readonly Slot[], slotMs: number, samples: readonly ServerSample[]): Series {
  return {
    slotSeconds: slotMs / 1000,
    slots: slots.map(({ latency, ...counts }, index) => ({
      at: (index * slotMs) / 1000,
      ...counts,
      p50: round(percentile(latency, 0.5)),
      p99: round(percentile(latency, 0.99)),
      max: round(latency.max),
    })),
    server: samples.map((sample, index) => ({
      at: round(sample.at),
      cores: coresSince(samples[index - 1], sample),
      residentBytes: sample.residentBytes,
    })),
  }
}

function coresSince(previous: ServerSample | undefined, { at, cpu }: ServerSample): SeriesSample['cores'] {
  if (!previous || at <= previous.at) return {}
  const micros = (at - previous.at) * 1_000_000
  return Object.fromEntries(
    Object.entries(cpu).map(([role, used]) => [role, round((used - (previous.cpu[role as Role] ?? 0)) / micros)]),
  )
}

/** Three digits after the point: microseconds, and less than a file of noise. */
function round(value: number): number {
  return Math.round(value * 1000) / 1000
}
