import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { charged, fitting, paceOf, refunded, waitOf } from '../../../src/domain/rate-limit.ts'
import { countedAddress } from '../../../src/shared/lib/ip-address.ts'
import { forAll, forAllIn } from '../../support/property-runs.ts'

const aLimit = fc.record({
  requests: fc.integer({ min: 1, max: 500 }),
  windowSeconds: fc.integer({ min: 1, max: 604_800 }),
})
/** Pauses between requests, many of them none, relative to the limit's own pace. */
const pauses = fc.array(fc.oneof(fc.constant(0), fc.double({ min: 0, max: 5, noNaN: true })), {
  minLength: 1,
  maxLength: 200,
})

/** Instants of the requests that pass. */
function passing(limit: { requests: number; windowSeconds: number }, gaps: readonly number[]): number[] {
  const pace = paceOf(limit)
  const passed: number[] = []
  let tat = 0
  let now = 1.7e15
  for (const gap of gaps) {
    now += Math.round(gap * pace.interval)
    if (fitting(tat, pace, now) === 0) continue
    tat = charged(tat, pace, now)
    passed.push(now)
  }
  return passed
}

describe('rate limit arithmetic', () => {
  test('as many requests as the limit names pass at once, and not one more', () =>
    forAllIn({ numRuns: 50 }, aLimit, (limit) => {
      const zeros = new Array<number>(limit.requests + 5).fill(0)
      assert.equal(passing(limit, zeros).length, limit.requests)
    }))

  test('the long-run rate never exceeds requests per window', () =>
    forAll(aLimit, (limit) => assert.ok(paceOf(limit).interval * limit.requests >= limit.windowSeconds * 1e6)))

  test('it agrees with a bucket of whole requests that is refilled one at a time', () => {
    forAll(aLimit, pauses, (limit, gaps) => {
      const { interval } = paceOf(limit)
      // The model keeps microseconds of credit: full at requests × interval, one request costs one interval.
      const full = limit.requests * interval
      let credit = full
      let now = 1.7e15
      const expected: number[] = []
      for (const gap of gaps) {
        const pause = Math.round(gap * interval)
        now += pause
        credit = Math.min(full, credit + pause)
        if (credit < interval) continue
        credit -= interval
        expected.push(now)
      }
      assert.deepEqual(passing(limit, gaps), expected)
    })
  })

  test('a refused request passes after the wait it was told, and not a microsecond earlier', () =>
    forAll(aLimit, fc.integer({ min: 0, max: 1e9 }), (limit, elapsed) => {
      const pace = paceOf(limit)
      const start = 1.7e15
      const tat = charged(0, pace, start, limit.requests)
      const now = start + Math.min(elapsed, pace.interval - 1)
      const wait = waitOf(tat, pace, now)
      assert.equal(fitting(tat, pace, now + wait - 1), 0)
      assert.equal(fitting(tat, pace, now + wait), 1)
    }))

  test('charging and refunding leaves everything as it was', () =>
    forAll(aLimit, fc.integer({ min: 1, max: 500 }), (limit, used) => {
      const pace = paceOf(limit)
      const now = 1.7e15
      const before = charged(0, pace, now, Math.min(used, limit.requests))
      assert.equal(refunded(charged(before, pace, now), pace), before)
      assert.equal(refunded(charged(before, pace, now, 7), pace, 7), before)
    }))
})

describe('what an address is counted as', () => {
  const same: [string, string][] = [
    ['2001:db8:1:2::1', '2001:db8:1:2:ffff:ffff:ffff:ffff'],
    ['2001:DB8:0001:2::', '2001:db8:1:2::9'],
    ['fe80::1%eth0', 'fe80::2'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
  ]
  for (const [one, other] of same)
    test(`${one} and ${other} are one client`, () => assert.equal(countedAddress(one), countedAddress(other)))

  const different: [string, string][] = [
    ['192.0.2.1', '192.0.2.2'],
    ['2001:db8:1:2::1', '2001:db8:1:3::1'],
    ['::1', '::ffff:127.0.0.1'],
  ]
  for (const [one, other] of different)
    test(`${one} and ${other} are two`, () => assert.notEqual(countedAddress(one), countedAddress(other)))
})
