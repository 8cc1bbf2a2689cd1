/** Latency histograms in microseconds, by hdr-histogram-js: two significant digits, so a percentile is at most 1 % off. */

import { build, decodeFromCompressedBase64, encodeIntoCompressedBase64, type Histogram } from 'hdr-histogram-js'

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

/** As text, which crosses processes. */
export function packHistogram(histogram: Histogram): string {
  return encodeIntoCompressedBase64(histogram)
}

export function addPacked(target: Histogram, packed: string): void {
  target.add(decodeFromCompressedBase64(packed, 32, false))
}
