/** The steps of an upstream order, their bounds, and who may go on at a moment. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createOrderAdmission } from '../../../src/ca/acme-proxy/order-admission.ts'
import {
  after,
  afterError,
  follow,
  mayHaveIssued,
  nextTurn,
  type OrderState,
  orderedState,
  overdue,
  retryPauseMs,
  withinBounds,
} from '../../../src/ca/acme-proxy/order-steps.ts'
import { createNoncePool } from '../../../src/ca/acme-proxy/upstream-client.ts'
import { UPSTREAM_ORDER, type UpstreamOrderStep } from '../../../src/domain/states.ts'

const LIMITS = { totalMs: 300_000, readyMs: 30_000 }
const at = (step: UpstreamOrderStep, more: Partial<OrderState> = {}): OrderState => ({
  ...orderedState('https://ca.test/order/1', 0),
  step,
  ...more,
})
const FAILURE = { problem: 'serverInternal', reason: 'test' } as const

describe('the steps of an upstream order', () => {
  test('each leads to a step of the table, and only finalize and what follows may have issued', () => {
    for (const row of Object.values(UPSTREAM_ORDER))
      for (const next of Object.values(row)) assert.ok(next in UPSTREAM_ORDER)
    const steps = Object.keys(UPSTREAM_ORDER) as UpstreamOrderStep[]
    const admitted = steps.filter((step) => mayHaveIssued(at(step)))
    assert.deepEqual(admitted, ['finalize', 'clean', 'collect'])
    assert.equal(mayHaveIssued(at('clean', { failure: FAILURE })), false)
  })

  test('an event that the step does not know is an error', () =>
    assert.throws(() => after(at('place'), 'ready', 0), /place has no event ready/))

  test('a new step counts its failures and looks from zero', () => {
    const next = after(at('await', { failures: 3, looks: 9 }), 'ready', 17)
    assert.deepEqual([next.step, next.stepSince, next.failures, next.looks], ['finalize', 17, 0, 0])
  })

  test('what may be published is withdrawn before an order ends; a passing failure begins it again', () => {
    const responses = ['a', 'b', 'c'].map((domain) => ({
      challenge: `https://ca.test/${domain}`,
      domain,
      token: domain,
    }))
    const passing = { ...FAILURE, isPassing: true }
    const withdrawing = follow(at('place', { responses, placed: 1 }), 'failed', 0, { failure: FAILURE })
    assert.ok('step' in withdrawing)
    assert.deepEqual([withdrawing.step, withdrawing.responses.length], ['clean', 2])
    assert.deepEqual(follow(withdrawing, 'cleaned', 0, { removed: 2 }), { refused: FAILURE })
    assert.deepEqual(follow(at('inspect'), 'failed', 0, { failure: FAILURE }), { refused: FAILURE })
    const left = follow({ ...withdrawing, failure: passing }, 'cleaned', 0, { removed: 2 })
    assert.ok('step' in left)
    assert.deepEqual(nextTurn(left, false, LIMITS, 0), { do: 'begin again', failure: passing })
    assert.deepEqual(nextTurn(left, true, LIMITS, 0), { do: 'act', lateReason: undefined })
    assert.equal((follow(at('finalize'), 'finalized', 0) as OrderState).step, 'collect')
  })

  test('an order that is given up or late fails before the CSR, and is looked at once more where it waits', () => {
    const turn = (step: UpstreamOrderStep, isAbandoned: boolean, nowMs: number) =>
      nextTurn(at(step), isAbandoned, LIMITS, nowMs)
    for (const step of ['inspect', 'place', 'answer', 'await'] as const) {
      assert.equal(turn(step, true, 0).do, 'fail', step)
      assert.deepEqual(turn(step, false, 0), { do: 'act', lateReason: undefined })
      assert.equal(turn(step, false, 300_001).do, step === 'await' ? 'act' : 'fail', step)
    }
    for (const step of ['finalize', 'clean', 'collect'] as const)
      assert.deepEqual(turn(step, true, 9_999_999), { do: 'act', lateReason: undefined })
  })

  test('an error is tried again while it passes, and for as long as a certificate may exist', () => {
    const by = (step: UpstreamOrderStep, failures: number, isPassing: boolean, isRepeated = false) =>
      afterError(at(step, { failures }), { isPassing, isRepeated }, 2)
    for (const step of ['inspect', 'place', 'answer', 'await'] as const)
      assert.deepEqual([by(step, 1, true), by(step, 2, true), by(step, 0, false)], ['again', 'failed', 'failed'], step)
    assert.deepEqual([by('finalize', 9, true), by('finalize', 0, false)], ['again', 'failed'])
    assert.deepEqual([by('finalize', 1, false), by('finalize', 0, false, true)], ['finalized', 'finalized'])
    assert.deepEqual([by('collect', 9, true), by('collect', 0, false)], ['again', 'unknown'])
  })

  test('timeout_seconds bounds what comes before the CSR, order_ready_timeout the wait for ready', () => {
    assert.match(overdue(at('place'), LIMITS, 300_001) ?? '', /timeout_seconds/)
    assert.match(overdue(at('await'), LIMITS, 30_001) ?? '', /order_ready_timeout/)
    assert.equal(overdue(at('await', { stepSince: 1 }), LIMITS, 30_000), undefined)
    for (const step of ['finalize', 'clean', 'collect'] as const)
      assert.equal(overdue(at(step), LIMITS, 9_999_999), undefined)
  })

  test('no pause goes far beyond the bound of its state', () => {
    assert.equal(withinBounds(at('await'), 3_600_000, LIMITS, 10_000), 20_001)
    assert.equal(withinBounds(at('place'), 3_600_000, LIMITS, 10_000), 290_001)
    assert.equal(withinBounds(at('collect'), 3_600_000, LIMITS, 10_000), 3_600_000)
    assert.equal(withinBounds(at('await'), 100, LIMITS, 10_000), 100)
  })

  test('pauses grow to a minute', () =>
    assert.deepEqual([1, 2, 3, 99].map(retryPauseMs), [1_000, 2_000, 4_000, 60_000]))
})

describe('which orders may go on', () => {
  test('as many as are allowed, until one ends or is not seen any more', () => {
    let now = 0
    const admission = createOrderAdmission(2, 1_000, () => now)
    const admitted = ['a', 'b', 'c', 'a'].map((id) => admission.admit(id))
    assert.deepEqual(admitted, [true, true, false, true])
    admission.end('b')
    assert.equal(admission.admit('c'), true)
    now = 800
    admission.admit('c')
    now = 1_500
    assert.equal(admission.admit('d'), true, 'a was not seen for longer than a second')
    assert.equal(admission.admit('e'), false)
  })

  test('one record belongs to one order at a time, and several are claimed together or not at all', () => {
    const admission = createOrderAdmission(9, 1_000, () => 0)
    assert.equal(admission.claim('a', ['x.test', 'x.test']), true)
    assert.equal(admission.claim('b', ['y.test', 'x.test']), false)
    assert.equal(admission.claim('c', ['y.test']), true, 'b has claimed nothing')
    admission.end('a')
    assert.equal(admission.claim('b', ['x.test']), true)
  })
})

test('nonces are kept in a bounded number, the newest first', () => {
  const pool = createNoncePool()
  for (let number = 0; number < 100; number++) pool.put(`nonce-${number}`)
  pool.put('not a nonce')
  pool.put(undefined)
  const taken = Array.from({ length: 65 }, () => pool.take())
  assert.deepEqual([taken[0], taken[63], taken[64]], ['nonce-99', 'nonce-36', undefined])
})
