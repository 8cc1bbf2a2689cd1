/** When requests are turned away, and which: the rules by table, and what they make of a queue (docs/operations/limits.md). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  CALM,
  expectedDelayMs,
  isHeavy,
  isTurnedAway,
  newOrderPressure,
  newOrdersBeside,
  nextRate,
  nextState,
  type OverloadState,
  retryAfterSeconds,
  TICK_MS,
  WORK_CLASS,
} from '../../../src/overload/overload.ts'
import { keysOf } from '../../../src/shared/lib/encoding.ts'
import { forAll } from '../../support/property-runs.ts'

const after = (state: OverloadState, ...pressures: number[]) =>
  pressures.reduce((now, pressure) => nextState(now, pressure), state)

describe('overload', () => {
  test('begins when the pressure has stood for 200 ms, and not with a burst', () => {
    assert.equal(after(CALM, 9, 9, 9).isOverloaded, false)
    assert.equal(after(CALM, 9, 9, 9, 9).isOverloaded, true)
    assert.equal(after(CALM, 9, 9, 9, 0.9, 9, 9, 9).isOverloaded, false)
    assert.equal(after(CALM, 1, 1, 1, 1, 1).isOverloaded, false)
  })

  test('ends when there was no pressure for a second', () => {
    const over = after(CALM, 2, 2, 2, 2)
    const quiet = Array.from({ length: 19 }, () => 0.1)
    assert.equal(after(over, ...quiet).isOverloaded, true)
    assert.equal(after(over, ...quiet, 0.1).isOverloaded, false)
    assert.equal(after(over, ...quiet, 0.6, 0.1).isOverloaded, true)
  })
})

describe('who is turned away', () => {
  test('nobody below half of the accepted delay, whatever is asked', () => {
    for (const resource of keysOf(WORK_CLASS))
      for (const heavy of [true, false]) assert.equal(isTurnedAway(0.5, resource, heavy), false, resource)
  })

  test('what begins something new goes first, and orders under way go on', () => {
    assert.equal(isTurnedAway(1.1, 'newOrder', false), true)
    assert.equal(isTurnedAway(1.1, 'newAccount', false), true)
    assert.equal(isTurnedAway(1.1, 'accountOrders', false), false)
    assert.equal(isTurnedAway(2.1, 'accountOrders', false), true)
    for (const resource of ['order', 'authorization', 'challenge', 'finalize', 'certificate', 'revokeCert'] as const)
      assert.equal(isTurnedAway(9.9, resource, false), false, resource)
    assert.equal(isTurnedAway(10.1, 'finalize', false), true)
  })

  test('an address that takes too much is refused no later than one that does not, at any pressure', () => {
    forAll(fc.double({ min: 0, max: 20, noNaN: true }), fc.constantFrom(...keysOf(WORK_CLASS)), (at, resource) =>
      assert.ok(!isTurnedAway(at, resource, false) || isTurnedAway(at, resource, true)),
    )
    // It is through with everything when the others lose nothing but what is new.
    assert.equal(isTurnedAway(1.01, 'finalize', true), true)
  })

  test('more pressure never lets more in', () => {
    const pressure = fc.double({ min: 0, max: 20, noNaN: true })
    forAll(pressure, pressure, fc.constantFrom(...keysOf(WORK_CLASS)), fc.boolean(), (a, b, resource, heavy) => {
      const [low, high] = [Math.min(a, b), Math.max(a, b)]
      assert.ok(!isTurnedAway(low, resource, heavy) || isTurnedAway(high, resource, heavy))
    })
  })
})

describe('a heavy address', () => {
  const cases: [what: string, own: number, total: number, users: number, heavy: boolean][] = [
    ['alone', 1000, 1000, 1, false],
    ['one of two with three quarters', 750, 1000, 2, true],
    ['one of two with two thirds', 600, 900, 2, false],
    ['the other of those two', 250, 1000, 2, false],
    ['one of ten equals', 100, 1000, 10, false],
    ['half of what eleven take', 500, 1000, 11, true],
    ['a tenth of what a thousand take', 100, 1000, 1000, false],
  ]
  for (const [what, own, total, users, heavy] of cases)
    test(`${what}: ${heavy ? 'yes' : 'no'}`, () => assert.equal(isHeavy(own, total, users), heavy))
})

describe('the expected delay', () => {
  test('is what Little says, and nothing where a few requests are under way', () => {
    assert.equal(expectedDelayMs(100, 2), 50)
    assert.equal(expectedDelayMs(15, 0.001), 0)
    assert.equal(expectedDelayMs(16, 0), Number.POSITIVE_INFINITY)
  })

  test('follows a change of the rate within half a second', () => {
    let rate = 0
    for (let at = 0; at < 500; at += TICK_MS) rate = nextRate(rate, 10 * TICK_MS)
    assert.ok(rate > 8.5 && rate <= 10, String(rate))
  })
})

describe('Retry-After', () => {
  test('is 1 to 4 seconds at first, and never more than half a minute', () => {
    const draw = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
    forAll(draw, fc.double({ min: 0, max: 1e8, noNaN: true }), (at, episode) => {
      const first = retryAfterSeconds(0, at)
      assert.ok(Number.isInteger(first) && first >= 1 && first <= 4)
      assert.ok(retryAfterSeconds(episode, at) >= first && retryAfterSeconds(episode, at) <= 30)
    })
  })
})

interface Asked {
  step: number
  /** When its flow was first asked for. */
  since: number
  refused?: true
}

/**
 * One server that takes 0.07 ms for a request and 0.02 for a refusal; clients send the seven requests of a flow one after the other. What
 * has come is served a turn of the loop at a time, and those that begin wait while there is a queue (`isOrdered`) as in the front. The
 * clock is the queue's own, so the figures are the same every time.
 * @param crowd flows that are asked for at once when the time begins
 */
function simulate(load: number, seconds: number, { crowd = 0, isOrdered = true, targetMs = 100 } = {}) {
  const SERVICE = 0.07
  const capacity = 1 / (7 * SERVICE)
  let now = 0
  let state = CALM
  let [rate, answered, underWay] = [0, 0, 0]
  let [beginningRate, letIn] = [0, 0]
  let nextArrival = 0
  let nextTick = TICK_MS
  let came: Asked[] = []
  const waiting: Asked[] = []
  const figures = {
    served: 0,
    newRefused: 0,
    begunRefused: 0,
    lastRefusal: 0,
    longestMs: 0,
    worstSecond: 0,
    capacity: 0,
  }
  const servedIn = new Array<number>(seconds).fill(0)
  const end = seconds * 1000
  const pressure = () => expectedDelayMs(underWay, rate) / targetMs
  const pressureAtBeginning = () =>
    Math.max(pressure(), newOrderPressure(expectedDelayMs(waiting.length, beginningRate), targetMs))

  const send = (step: number, since: number) => {
    const refused =
      state.isOverloaded && isTurnedAway(step ? pressure() : pressureAtBeginning(), step ? 'order' : 'newOrder', false)
    if (refused) {
      figures[step ? 'begunRefused' : 'newRefused']++
      figures.lastRefusal = now
      came.push({ step, since, refused })
    } else if (isOrdered && step === 0 && (pressure() > 0.3 || waiting.length > 0)) waiting.push({ step, since })
    else {
      underWay++
      came.push({ step, since })
    }
  }
  const pass = (ms: number) => {
    now += ms
    for (; nextArrival <= now; nextArrival += 1 / (capacity * (nextArrival < end ? load : 0.5))) send(0, nextArrival)
    for (; nextTick <= now; nextTick += TICK_MS) {
      rate = nextRate(rate, answered)
      beginningRate = nextRate(beginningRate, letIn)
      answered = letIn = 0
      state = nextState(state, pressureAtBeginning())
    }
  }
  const serve = ({ step, since, refused }: Asked) => {
    if (refused) return pass(0.02)
    pass(SERVICE)
    underWay--
    answered++
    if (step < 6) return send(step + 1, since)
    figures.longestMs = Math.max(figures.longestMs, now - since)
    if (now >= end) return
    figures.served++
    ;(servedIn[Math.floor(now / 1000)] as number)++
  }
  for (let i = 0; i < crowd; i++) send(0, 0)
  while (now < end + 3000) {
    const turn = came
    came = []
    for (const asked of turn) serve(asked)
    for (const asked of waiting.splice(0, newOrdersBeside(turn.length))) {
      letIn++
      underWay++
      serve(asked)
    }
    if (came.length === 0 && waiting.length === 0) pass(Math.min(nextArrival, nextTick) - now)
  }
  figures.capacity = Math.round(capacity * end)
  figures.worstSecond = Math.min(...servedIn) / (capacity * 1000)
  return { ...figures, isOverloaded: state.isOverloaded }
}

describe('a queue under this rule', () => {
  for (const [load, share] of [
    [1.2, 0.95],
    [2, 0.88],
    [5, 0.7],
  ] as const)
    test(`offered ${load} times its capacity serves ${share} of it, wastes no flow it began, and recovers at once`, (t) => {
      const figures = simulate(load, 10)
      t.diagnostic(JSON.stringify(figures))
      assert.ok(figures.served > share * figures.capacity)
      assert.ok(figures.newRefused > 0)
      assert.ok(figures.begunRefused < 0.005 * figures.newRefused)
      assert.ok(figures.lastRefusal < 10_500, `the last refusal was at ${figures.lastRefusal} ms`)
      assert.equal(figures.isOverloaded, false)
    })

  test('refuses nothing at nine tenths of its capacity', () => {
    const { newRefused, begunRefused } = simulate(0.9, 5)
    assert.equal(newRefused + begunRefused, 0)
  })

  test('a crowd that comes at once does not keep the flows of each other from ending', (t) => {
    const ordered = simulate(2, 10, { crowd: 2000 })
    const firstCome = simulate(2, 10, { crowd: 2000, isOrdered: false })
    t.diagnostic(JSON.stringify({ ordered, firstCome }))
    assert.ok(ordered.worstSecond > 0.85, `the worst second served ${ordered.worstSecond} of the capacity`)
    assert.ok(firstCome.worstSecond < 0.3, 'first come, first served is what this is better than')
    assert.equal(ordered.begunRefused, 0)
  })
})
