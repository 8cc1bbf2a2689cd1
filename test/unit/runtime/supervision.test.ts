import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  decideRestart,
  NO_FAILURES,
  type RestartHistory,
  type RestartPolicy,
} from '../../../src/runtime/supervision.ts'
import { forAll } from '../../support/property-runs.ts'

const POLICY: RestartPolicy = { initialDelayMs: 100, maxDelayMs: 1000, maxRestarts: 5, windowMs: 60_000 }

/** The decisions for failures at these times. */
function decisions(times: readonly number[], policy = POLICY): (number | 'escalate')[] {
  let history: RestartHistory = NO_FAILURES
  return times.map((now) => {
    const next = decideRestart(policy, history, now)
    history = next.history
    return next.decision.action === 'restart' ? next.decision.delayMs : 'escalate'
  })
}

describe('the restart policy', () => {
  const CASES: Record<string, [times: number[], expected: (number | 'escalate')[]]> = {
    'doubles the delay up to its maximum, then escalates': [
      [0, 1, 2, 3, 4, 5],
      [100, 200, 400, 800, 1000, 'escalate'],
    ],
    'forgets failures that left the window': [
      [0, 1, 60_001, 120_002],
      [100, 200, 100, 100],
    ],
    'counts a failure until the window is over': [
      [0, 59_999],
      [100, 200],
    ],
  }
  for (const [what, [times, expected]] of Object.entries(CASES))
    test(what, () => assert.deepEqual(decisions(times), expected))

  test('without restarts escalates at the first failure', () =>
    assert.deepEqual(decisions([0], { ...POLICY, maxRestarts: 0 }), ['escalate']))

  test('never remembers more than it needs, and never waits longer than its maximum', () =>
    forAll(fc.array(fc.nat(5000), { maxLength: 100 }), fc.nat(10), (gaps, maxRestarts) => {
      const policy = { ...POLICY, maxRestarts }
      let history: RestartHistory = NO_FAILURES
      let now = 0
      for (const gap of gaps) {
        now += gap
        const next = decideRestart(policy, history, now)
        history = next.history
        assert.ok(history.length <= maxRestarts + 1)
        if (next.decision.action === 'restart') assert.ok(next.decision.delayMs <= policy.maxDelayMs)
      }
    }))
})
