import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  emptyHistogram,
  type Histogram,
  mean,
  mergeInto,
  percentile,
  recordValue,
} from '../../../bench/measure/histogram.ts'

function histogramOf(values: readonly number[]): Histogram {
  const histogram = emptyHistogram()
  for (const value of values) recordValue(histogram, value)
  return histogram
}

/** The definition a histogram approximates: the smallest value that the fraction of all does not exceed. */
function exactPercentile(values: readonly number[], fraction: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(1, Math.ceil(fraction * sorted.length)) - 1]!
}

const latencies = fc.array(fc.double({ min: 0, max: 2_000_000, noNaN: true }), { minLength: 1, maxLength: 200 })

describe('latency histogram', () => {
  test('a percentile is within 0.8 % and a microsecond of the exact one', () => {
    fc.assert(
      fc.property(latencies, fc.double({ min: 0, max: 1, noNaN: true }), (values, fraction) => {
        const exact = exactPercentile(values, fraction)
        const measured = percentile(histogramOf(values), fraction)
        assert.ok(Math.abs(measured - exact) <= exact / 128 + 0.001, `${measured} for ${exact}`)
      }),
    )
  })

  test('merging is the same as recording everything in one', () => {
    fc.assert(
      fc.property(latencies, latencies, (left, right) => {
        const merged = histogramOf(left)
        mergeInto(merged, histogramOf(right))
        const whole = histogramOf([...left, ...right])
        assert.deepEqual(merged.buckets, whole.buckets)
        assert.equal(merged.count, whole.count)
        assert.equal(merged.max, whole.max)
        assert.ok(Math.abs(mean(merged) - mean(whole)) <= 1e-6 * mean(whole))
      }),
    )
  })

  test('the highest percentile is the maximum', () =>
    assert.equal(percentile(histogramOf([1, 2, 1234.567]), 1), 1234.567))

  test('an empty histogram shows zeros', () => {
    assert.equal(percentile(emptyHistogram(), 0.99), 0)
    assert.equal(mean(emptyHistogram()), 0)
  })

  test('a value beyond its range is counted, and shown as the maximum', () => {
    const histogram = histogramOf([1e9])
    assert.equal(histogram.count, 1)
    assert.equal(histogram.max, 1e9)
  })
})
