import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Slot } from '../../../bench/measure/stats.ts'
import { emptyHistogram, recordMs } from '../../../bench/measure/stats.ts'
import { reckonOverload } from '../../../bench/overload.ts'

const SLOTS_PER_SECOND = 5

/** `count` operations of `ms` in each of the slots of some seconds. */
function seconds(length: number, count: number, ms: number, more: Partial<Slot> = {}): Slot[] {
  return Array.from({ length: length * SLOTS_PER_SECOND }, () => {
    const latency = emptyHistogram()
    for (let i = 0; i < count; i++) recordMs(latency, ms)
    return { succeeded: count, failed: 0, refused: 0, dropped: 0, latency, ...more }
  })
}

describe('an overload', () => {
  const calm = seconds(4, 10, 20)
  const flood = seconds(10, 18, 200, { refused: 20, dropped: 2 })
  /** The maximum is 100 a second; the flood lasts from second 4 to 14. */
  const reckon = (...slots: Slot[][]) => reckonOverload(100, slots.flat(), 4, 14)

  test('is judged by what came out of it', () => {
    const { goodputShare, worstGoodputShare, flood: counts, latency } = reckon(calm, flood, seconds(4, 10, 20))
    assert.deepEqual([goodputShare, worstGoodputShare], [0.9, 0.9])
    assert.deepEqual(counts, { succeeded: 900, failed: 0, refused: 1000, dropped: 100 })
    assert.ok(Math.abs(latency.flood.p50 - 200) < 3 && Math.abs(latency.before.p50 - 20) < 1)
  })

  test('has a worst time that its average hides', () => {
    const { goodputShare, worstGoodputShare } = reckon(calm, seconds(5, 36, 200), seconds(5, 0, 0), calm)
    assert.deepEqual([goodputShare, worstGoodputShare], [0.9, 0])
  })

  test('is over when a second is served as before, and not when it is only quiet', () => {
    assert.equal(reckon(calm, flood, calm).recoverySeconds, 0)
    assert.equal(reckon(calm, flood, seconds(2, 10, 400), seconds(2, 10, 20)).recoverySeconds, 2)
    assert.equal(reckon(calm, flood, seconds(4, 10, 20, { refused: 1 })).recoverySeconds, undefined)
    assert.equal(reckon(calm, flood, seconds(4, 0, 0)).recoverySeconds, undefined)
  })
})
