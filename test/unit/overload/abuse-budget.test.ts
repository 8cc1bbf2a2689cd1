/** What an address may waste before it is held back, and who goes on beside it. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { AbuseBudget } from '../../../src/overload/abuse-budget.ts'
import { Problem } from '../../../src/shared/protocol/problem.ts'

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
