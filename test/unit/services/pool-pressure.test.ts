import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  isRefusing,
  PRESSURE_RETRY_AFTER,
  type PressureTier,
  pressureTier,
} from '../../../src/services/shared-state.ts'

/** max, size, available, waiting → tier. */
const ROWS: [string, [number, number, number, number], PressureTier][] = [
  // Growth headroom: pool below max_connections; allowed.
  ['a pool that has not been used yet may grow', [10, 0, 0, 0], 'growth'],
  ['a pool below its maximum is allowed, whatever waits', [10, 9, 0, 50], 'growth'],
  // Exhausted: no available connections, requests waiting, pool at max.
  ['nothing available and requests waiting is exhausted', [10, 10, 0, 1], 'exhausted'],
  ['a large pool is exhausted in the same way', [50, 50, 0, 1], 'exhausted'],
  ['a pool of one is exhausted in the same way', [1, 1, 0, 1], 'exhausted'],
  // Critical: available at or below 30 % of pool max.
  ['nothing available and nobody waiting is critical', [10, 10, 0, 0], 'critical'],
  ['30 % available is critical', [10, 10, 3, 0], 'critical'],
  ['30 % of 20 is critical', [20, 20, 6, 0], 'critical'],
  ['one above 30 % of 20 is not critical', [20, 20, 7, 0], 'none'],
  // … 10 % when max is above 20.
  ['30 % of 21 is not critical any more', [21, 21, 6, 0], 'none'],
  ['10 % of 40 is critical', [40, 40, 4, 0], 'critical'],
  ['one above 10 % of 40 is not', [40, 40, 5, 0], 'none'],
  ['a threshold never falls below two connections of a large pool', [21, 21, 2, 0], 'critical'],
  // Pressure: available at or below 50 % of pool max and requests waiting.
  ['40 % available and requests waiting is pressure', [10, 10, 4, 1], 'pressure'],
  ['50 % available and requests waiting is pressure', [10, 10, 5, 1], 'pressure'],
  ['50 % available and nobody waiting is nothing', [10, 10, 5, 0], 'none'],
  ['above 50 % is nothing even when requests wait', [10, 10, 6, 1], 'none'],
  // … 20 % when max is above 20.
  ['20 % of 40 and requests waiting is pressure', [40, 40, 8, 1], 'pressure'],
  ['above 20 % of 40 is nothing', [40, 40, 9, 1], 'none'],
  ['a full pool with everything available is nothing', [10, 10, 10, 0], 'none'],
  // Pools too small for a percentage.
  ['a pool of one with its connection in use can work', [1, 1, 0, 0], 'none'],
  ['a pool of two with one in use can work', [2, 2, 1, 0], 'none'],
  ['a pool of two with both in use is critical', [2, 2, 0, 0], 'critical'],
  ['a pool of three with one left is critical', [3, 3, 1, 0], 'critical'],
]

describe('pool pressure tiers', () => {
  for (const [title, [max, size, available, waiting], tier] of ROWS)
    test(title, () => assert.equal(pressureTier({ max, size, available, waiting }), tier))

  test('the refusing tiers say 5, 3 and 2 seconds', () => {
    assert.deepEqual(PRESSURE_RETRY_AFTER, { exhausted: 5, critical: 3, pressure: 2 })
    assert.deepEqual((['none', 'growth', 'exhausted', 'critical', 'pressure'] as const).filter(isRefusing), [
      'exhausted',
      'critical',
      'pressure',
    ])
  })
})
