/**
 * A latency histogram with bounded relative error, in the manner of HdrHistogram.
 *
 * Whole microseconds below 256 have a bucket each; every octave above has 128 buckets, so that a percentile is at most
 * 1/128 (0.8 %) above the true value, up to 35 minutes. Plain data, so that it crosses processes and merges by addition.
 */

const SUB_BUCKET_BITS = 7
const SUB_BUCKETS = 1 << SUB_BUCKET_BITS
const EXACT_BELOW = 2 * SUB_BUCKETS
const MAX_MICROS = 2 ** 31 - 1
const BUCKETS = indexOf(MAX_MICROS) + 1

export interface Histogram {
  count: number
  /** Milliseconds; so is `max`. */
  sum: number
  max: number
  buckets: Float64Array
}

export function emptyHistogram(): Histogram {
  return { count: 0, sum: 0, max: 0, buckets: new Float64Array(BUCKETS) }
}

/** Values beyond 35 minutes count as 35 minutes; `max` stays exact. */
export function recordValue(histogram: Histogram, ms: number): void {
  const micros = Math.min(Math.max(Math.round(ms * 1000), 0), MAX_MICROS)
  histogram.buckets[indexOf(micros)]! += 1
  histogram.count++
  histogram.sum += ms
  if (ms > histogram.max) histogram.max = ms
}

export function mergeInto(target: Histogram, source: Histogram): void {
  for (let i = 0; i < BUCKETS; i++) target.buckets[i]! += source.buckets[i]!
  target.count += source.count
  target.sum += source.sum
  target.max = Math.max(target.max, source.max)
}

/**
 * @param fraction 0 to 1.
 * @returns milliseconds that at least this fraction of the values do not exceed; 0 for an empty histogram.
 */
export function percentile(histogram: Histogram, fraction: number): number {
  const rank = Math.max(1, Math.ceil(fraction * histogram.count))
  let seen = 0
  for (let i = 0; i < BUCKETS; i++) {
    seen += histogram.buckets[i]!
    if (seen >= rank) return Math.min(highestOf(i) / 1000, histogram.max)
  }
  return histogram.max
}

export function mean(histogram: Histogram): number {
  return histogram.count === 0 ? 0 : histogram.sum / histogram.count
}

function indexOf(micros: number): number {
  if (micros < EXACT_BELOW) return micros
  const shift = 31 - Math.clz32(micros) - SUB_BUCKET_BITS
  return shift * SUB_BUCKETS + (micros >>> shift)
}

/** The largest value that falls into a bucket. */
function highestOf(index: number): number {
  if (index < EXACT_BELOW) return index
  const shift = Math.floor(index / SUB_BUCKETS) - 1
  return (index - shift * SUB_BUCKETS + 1) * 2 ** shift - 1
}
