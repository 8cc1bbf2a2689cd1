/** What all threads know of pools, switches and backends. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { CsrFinalization } from '../../../src/services/csr-finalization.ts'
import {
  allocateSharedFlags,
  isRefusing,
  openSharedFlags,
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

describe('shared flags', () => {
  test('the pools of the fronts are one pool', () => {
    const memory = allocateSharedFlags(2)
    openSharedFlags(memory).reportPool(0, { max: 4, size: 4, available: 1, waiting: 2 })
    openSharedFlags(memory).reportPool(1, { max: 4, size: 3, available: 3, waiting: 0 })
    assert.deepEqual(openSharedFlags(memory).pool(), { max: 8, size: 7, available: 4, waiting: 2 })
  })

  test('an exhausted pool lets one request of all threads through every two seconds', (context) => {
    context.mock.timers.enable({ apis: ['Date'], now: 1_800_000_000_000 })
    const memory = allocateSharedFlags(1)
    const [one, two] = [openSharedFlags(memory), openSharedFlags(memory)]
    one.reportPool(0, { max: 2, size: 2, available: 0, waiting: 1 })
    assert.equal(one.admission(), 'none')
    assert.equal(two.admission(), 'exhausted')
    context.mock.timers.tick(1_999)
    assert.equal(two.admission(), 'exhausted')
    context.mock.timers.tick(1)
    assert.equal(two.admission(), 'none')
    assert.equal(one.admission(), 'exhausted')
  })

  test('the maintenance flag is the same for all', () => {
    const memory = allocateSharedFlags(1)
    openSharedFlags(memory).setSwitch('maintenance', true)
    assert.equal(openSharedFlags(memory).isOn('maintenance'), true)
    openSharedFlags(memory).setSwitch('maintenance', false)
    assert.equal(openSharedFlags(memory).isOn('maintenance'), false)
  })
})

const NAMES = ['external', 'acme_proxy']

describe('backends that are left alone', () => {
  const memory = allocateSharedFlags(1, NAMES)
  const [supervisor, front] = [openSharedFlags(memory, NAMES), openSharedFlags(memory, NAMES)]

  test('are known to every thread, each by itself, for as long as they are', () => {
    assert.equal(front.secondsAway('external'), 0)
    supervisor.leaveAlone('external', 59_000)
    assert.ok(front.secondsAway('external') > 50 && front.secondsAway('external') <= 60)
    assert.equal(front.secondsAway('acme_proxy'), 0)
    supervisor.leaveAlone('external', 0)
    assert.equal(front.secondsAway('external'), 0)
    assert.equal(front.secondsAway('unknown'), 0)
    front.reportPool(0, { max: 4, size: 4, available: 1, waiting: 2 })
    assert.deepEqual(openSharedFlags(memory).pool(), { max: 4, size: 4, available: 1, waiting: 2 })
  })

  test('a finalize is refused while no backend of its profile is there', () => {
    const secondsAway = (name: string) => ({ external: 20, acme_proxy: 10 })[name] ?? 0
    const of = (backends: string[], isSignerUsable = false, more: object = {}) => {
      const parts = {
        secondsAway,
        isSignerUsable: () => isSignerUsable,
        isStopped: () => false,
        instanceId: 1,
        ...more,
      }
      const store = { begin: async () => true, takeFromSigner: async () => true }
      const finalization = new CsrFinalization({ store, issue: async () => 'pending', ...parts })
      return () => finalization.requireAvailable({ backends })
    }
    const refused = (retryAfterSeconds: number) => ({ status: 503, options: { status: 503, retryAfterSeconds } })
    assert.throws(of(['external']), refused(20))
    assert.throws(of(['external', 'acme_proxy', 'internal']), refused(10))
    of(['external', 'internal'], true)()
    of(['external', 'ext:./there.js'])()
    assert.throws(of(['external', 'internal'], true, { isStopped: () => true }), refused(60))
  })
})
