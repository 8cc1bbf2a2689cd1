/** The states of the circuit breaker, row by row, and that it always lets somebody try again. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { createCircuitBreaker } from '../../../src/ca/guarded-backend.ts'
import { forAll } from '../../support/property-runs.ts'

function aBreaker(failures = 3, recoveryMs = 1000) {
  let now = 0
  const seen: string[] = []
  const breaker = createCircuitBreaker(
    { failures, recoveryMs },
    { opened: () => seen.push('opened'), closed: () => seen.push('closed') },
    () => now,
  )
  const fail = (times = 1) => {
    for (let i = 0; i < times; i++) {
      assert.equal(breaker.admit(), true)
      breaker.failed()
    }
  }
  const pass = (ms: number) => {
    now += ms
  }
  return { breaker, seen, fail, pass }
}

/** Open, with its time over and a call let through. */
function trying() {
  const open = aBreaker()
  open.fail(3)
  open.pass(999)
  assert.equal(open.breaker.admit(), false)
  open.pass(1)
  assert.equal(open.breaker.admit(), true)
  return open
}

describe('the circuit breaker', () => {
  test('lets calls through while it is closed', () => {
    const { breaker, fail } = aBreaker()
    fail(2)
    assert.equal(breaker.retryAfterMs(), 0)
    assert.equal(breaker.admit(), true)
  })

  test('opens after failures in a row, and not after as many with a success between', () => {
    const { breaker, fail, seen } = aBreaker()
    fail(2)
    breaker.succeeded()
    fail(2)
    assert.deepEqual(seen, [])
    fail()
    assert.deepEqual(seen, ['opened'])
    assert.equal(breaker.admit(), false)
    assert.equal(breaker.retryAfterMs(), 1000)
  })

  test('lets one call try when its time has passed, and the others wait for what it learns', () => {
    assert.equal(trying().breaker.admit(), false)
  })

  test('a try that has not reached the other side leaves the next call to try', () => {
    const { breaker, seen } = trying()
    breaker.unknown()
    assert.equal(breaker.retryAfterMs(), 0)
    assert.equal(breaker.admit(), true)
    assert.deepEqual(seen, ['opened'])
  })

  test('closes when the try succeeds', () => {
    const { breaker, fail, seen } = trying()
    breaker.succeeded()
    assert.deepEqual(seen, ['opened', 'closed'])
    fail(2)
    assert.equal(breaker.admit(), true)
  })

  test('stays open for another while when the try fails, and says nothing new', () => {
    const { breaker, seen } = trying()
    breaker.failed()
    assert.equal(breaker.retryAfterMs(), 1000)
    assert.deepEqual(seen, ['opened'])
  })

  test('calls that were under way when it opened do not close or prolong it wrongly', () => {
    const { breaker, pass } = aBreaker(2)
    for (let i = 0; i < 4; i++) breaker.admit()
    breaker.failed()
    breaker.failed()
    pass(500)
    breaker.succeeded()
    assert.equal(breaker.admit(), true)
    breaker.failed()
    assert.equal(breaker.admit(), true)
  })

  test('whatever happened, a call is let through after the time it names', () => {
    const events = fc.array(fc.oneof(fc.constantFrom('call', 'ok', 'bad'), fc.nat(3000)), { maxLength: 60 })
    forAll(events, (happened) => {
      const { breaker, pass } = aBreaker(2)
      let underWay = 0
      for (const event of happened) {
        if (event === 'call') underWay += breaker.admit() ? 1 : 0
        else if (typeof event === 'number') pass(event)
        else if (underWay > 0) {
          underWay--
          if (event === 'ok') breaker.succeeded()
          else breaker.failed()
        }
      }
      for (; underWay > 0; underWay--) breaker.failed()
      pass(breaker.retryAfterMs())
      assert.equal(breaker.admit(), true)
    })
  })
})
