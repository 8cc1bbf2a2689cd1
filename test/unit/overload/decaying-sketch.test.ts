/** Amounts by key in fixed memory: never too small, seldom too large, and forgotten by halves. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { DecayingSketch, sketchKey } from '../../../src/overload/abuse-budget.ts'

const near = (actual: number, expected: number) =>
  assert.ok(Math.abs(actual - expected) <= 1e-6 * Math.max(1, expected), `${actual} is not ${expected}`)

describe('a decaying sketch', () => {
  test('halves with every half-life, also over weeks', () => {
    const sketch = new DecayingSketch(1000)
    const key = sketchKey('192.0.2.1')
    let now = 5
    sketch.add(key, 8, now)
    near(sketch.amount(key, now + 1000), 4)
    near(sketch.amount(key, now + 3000), 1)
    now += 100 * 86_400_000
    near(sketch.amount(key, now), 0)
    sketch.add(key, 3, now)
    near(sketch.amount(key, now), 3)
    near(sketch.total(now), 3)
  })

  test('keeps its amounts when the weights are taken back', () => {
    const sketch = new DecayingSketch(10)
    const key = sketchKey('a')
    let expected = 0
    for (let now = 1; now < 2000; now += 10) {
      expected = expected / 2 + 1
      sketch.add(key, 1, now)
      near(sketch.amount(key, now), expected)
    }
  })

  test('never says less than was added', () => {
    const additions = fc.array(fc.tuple(fc.ipV4(), fc.integer({ min: 1, max: 100 })), { maxLength: 300 })
    fc.assert(
      fc.property(additions, (added) => {
        const sketch = new DecayingSketch(1000)
        const sums = new Map<string, number>()
        for (const [address, amount] of added) {
          sketch.add(sketchKey(address), amount, 7)
          sums.set(address, (sums.get(address) ?? 0) + amount)
        }
        for (const [address, sum] of sums) assert.ok(sketch.amount(sketchKey(address), 7) >= sum)
        near(
          sketch.total(7),
          [...sums.values()].reduce((a, b) => a + b, 0),
        )
      }),
    )
  })

  test('takes one in thousands of strangers for somebody it knows', () => {
    const sketch = new DecayingSketch(1000)
    for (let i = 0; i < 500; i++) sketch.add(sketchKey(`198.51.${i >> 8}.${i & 255}`), 1, 1)
    let mistaken = 0
    for (let i = 0; i < 10_000; i++) if (sketch.amount(sketchKey(`10.1.${i >> 8}.${i & 255}`), 1) > 0) mistaken++
    // Expected: (500 / 4096)² of them, 149.
    assert.ok(mistaken < 300, `${mistaken} of 10,000`)
  })

  test('counts the keys with an amount, and knows the largest', () => {
    const sketch = new DecayingSketch(1000)
    for (const address of ['a', 'b', 'c']) sketch.add(sketchKey(address), 10, 1)
    sketch.add(sketchKey('d'), 1, 1)
    assert.deepEqual(sketch.profile(5, 1), { users: 3, largest: 10 })
    assert.deepEqual(sketch.profile(5, 1001), { users: 3, largest: 5 })
    assert.deepEqual(sketch.profile(5, 2001), { users: 0, largest: 2.5 })
  })
})
