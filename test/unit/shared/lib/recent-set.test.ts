/** A set that remembers for a while: at least its life, and at most three times that. */

import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import fc from 'fast-check'
import { RecentSet } from '../../../../src/shared/lib/caching.ts'

const LIFE_MS = 100

describe('a set that remembers for a while', () => {
  let now = 0
  beforeEach(() => {
    now = 1_000
    mock.method(performance, 'now', () => now)
  })
  afterEach(() => mock.restoreAll())

  test('whatever is added is there for its life, and gone after three times that', () => {
    const step = fc.record({ ms: fc.nat(150), member: fc.nat(5) })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const set = new RecentSet<number>(LIFE_MS)
        const addedAt = new Map<number, number>()
        for (const { ms, member } of steps) {
          now += ms
          for (const [other, at] of addedAt) {
            if (now - at < LIFE_MS) assert.equal(set.has(other), true)
            if (now - at >= 3 * LIFE_MS) assert.equal(set.has(other), false)
          }
          set.add(member)
          addedAt.set(member, now)
        }
      }),
    )
  })

  test('what was never added is not there', () => {
    const set = new RecentSet<string>(LIFE_MS)
    set.add('one')
    assert.equal(set.has('another'), false)
  })
})
