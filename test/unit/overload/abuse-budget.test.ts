/** What an address may waste before it is held back, counted in fixed memory. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { AbuseBudget, DecayingSketch, sketchKey } from '../../../src/overload/abuse-budget.ts'
import { Problem } from '../../../src/shared/protocol/problem.ts'
import { forAll } from '../../support/property-runs.ts'

function budget(isEnabled = true) {
  let now = 1
  const seen = { exhausted: [] as string[], refused: 0 }
  const subject = new AbuseBudget({
    isEnabled,
    events: { exhausted: (address) => void seen.exhausted.push(address), refused: () => void seen.refused++ },
    clock: () => now,
  })
  const waste = (address: string, times: number, amount = 1) => {
    for (let i = 0; i < times; i++) subject.charge(address, amount)
  }
  return {
    require: (address: string, provenFrom?: string) => subject.require(address, provenFrom),
    isExhausted: (address: string) => subject.isExhausted(address),
    waste,
    seen,
    pass: (ms: number) => (now += ms),
  }
}

describe('the budget of an address', () => {
  test('ends after a hundred signatures that fail, and the refusal is 429 with Retry-After', () => {
    const { waste, require, isExhausted, seen } = budget()
    waste('192.0.2.1', 100)
    require('192.0.2.1')
    waste('192.0.2.1', 1)
    assert.equal(isExhausted('192.0.2.1'), true)
    assert.throws(
      () => require('192.0.2.1'),
      (error) => {
        assert.ok(error instanceof Problem)
        assert.equal(error.type, 'rateLimited')
        assert.equal(error.status, 429)
        assert.ok((error.options.retryAfterSeconds ?? 0) >= 1)
        return true
      },
    )
    assert.equal(seen.refused, 1)
  })

  test('is kept for other addresses, and for an account that signs well from there', () => {
    const { waste, require } = budget()
    waste('192.0.2.1', 150)
    require('192.0.2.2')
    require('192.0.2.1', '192.0.2.1')
    assert.throws(() => require('192.0.2.1', '192.0.2.2'), Problem)
  })

  test('comes back within ten seconds of the last waste, however much it was', () => {
    const { waste, isExhausted, pass } = budget()
    waste('192.0.2.1', 100_000)
    pass(5000)
    assert.equal(isExhausted('192.0.2.1'), true)
    pass(5100)
    assert.equal(isExhausted('192.0.2.1'), false)
  })

  test('never ends with five failures a second', () => {
    const { waste, isExhausted, pass } = budget()
    for (let second = 0; second < 300; second++) {
      waste('192.0.2.1', 5)
      pass(1000)
    }
    assert.equal(isExhausted('192.0.2.1'), false)
  })

  test('counts the addresses of one IPv6 network as one', () => {
    const { waste, isExhausted } = budget()
    for (let i = 0; i < 150; i++) waste(`2001:db8::${i.toString(16)}`, 1)
    assert.equal(isExhausted('2001:db8::ffff'), true)
    assert.equal(isExhausted('2001:db8:0:1::1'), false)
  })

  test('is announced at most once a second', () => {
    const { waste, seen, pass } = budget()
    waste('192.0.2.1', 150)
    waste('192.0.2.9', 150)
    assert.deepEqual(seen.exhausted, ['192.0.2.1'])
    pass(1001)
    waste('192.0.2.9', 1)
    assert.deepEqual(seen.exhausted, ['192.0.2.1', '192.0.2.9'])
  })

  test('has no end where it is switched off', () => {
    const { waste, require } = budget(false)
    waste('192.0.2.1', 10_000)
    require('192.0.2.1')
  })
})

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
    forAll(additions, (added) => {
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
    })
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
