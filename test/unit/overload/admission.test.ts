/** One thread's admission: what it measures, whom it turns away, and when it says so. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Admission } from '../../../src/overload/admission.ts'
import type { EpisodeFacts } from '../../../src/overload/overload.ts'
import { TICK_MS } from '../../../src/overload/overload.ts'

const TARGET_MS = 100

type Asked = 'newOrder' | 'order' | 'directory' | 'probe'

function admission() {
  const said: string[] = []
  const counted: Record<string, number> = {}
  const began: EpisodeFacts[] = []
  let now = performance.now()
  let requests = 0
  const subject = new Admission(TARGET_MS, {
    begun(facts) {
      said.push('begun')
      began.push(facts)
    },
    ended: ({ turnedAway }) => void said.push(`ended after ${turnedAway}`),
    turnedAway(reason, count) {
      counted[reason] = (counted[reason] ?? 0) + count
    },
  })
  /** @param answered requests in each tick. @param lateMs how late each tick comes. */
  const ticks = (count: number, { answered = 0, lateMs = 0, arrived = 0, utilization = 0 } = {}) => {
    for (let i = 0; i < count; i++) {
      for (let n = 0; n < answered; n++) {
        subject.began('order')
        subject.ended('order')
      }
      now += TICK_MS + lateMs
      requests += arrived
      subject.tick(now, requests, utilization)
    }
  }
  const begin = (count: number) => {
    for (let i = 0; i < count; i++) subject.began('order')
  }
  const end = (count: number) => {
    for (let i = 0; i < count; i++) subject.ended('order')
  }
  /** As a front does. */
  const come = (resource: Asked, address: string) => {
    if (subject.isOverloaded) ask(resource, address)
    else if (subject.isWatching && subject.isSample()) subject.count(address, resource === 'probe')
  }
  const ask = (resource: Asked, address = '192.0.2.1') => subject.refuse(resource, address)
  return { subject, ticks, begin, end, ask, come, said, counted, began }
}

describe('admission', () => {
  test('lets everybody in while requests are answered in time', () => {
    const { ticks, begin, ask } = admission()
    begin(200)
    // 200 under way at 10 a millisecond: 20 ms.
    ticks(40, { answered: 10 * TICK_MS })
    assert.equal(ask('newOrder'), undefined)
  })

  test('turns new orders away when one more would take too long, and lets open orders continue', () => {
    const { ticks, begin, end, ask, said, counted, began } = admission()
    begin(400)
    ticks(40, { answered: 2 * TICK_MS })
    const refusal = ask('newOrder')
    assert.equal(refusal?.reason, 'delay')
    assert.equal(refusal?.isLate, false)
    assert.ok((refusal?.retryAfterSeconds ?? 0) >= 1)
    assert.equal(ask('order'), undefined)
    ticks(1, { answered: 2 * TICK_MS })
    assert.deepEqual(said, ['begun'])
    assert.deepEqual(counted, { delay: 1 })
    assert.ok((began[0]?.delayMs ?? 0) > TARGET_MS)

    // As soon as there is room the next one is let in: the decision is about this moment.
    end(250)
    assert.equal(ask('newOrder'), undefined)
  })

  test('has a queue while many are under way, and as long as somebody waits for them', () => {
    const { subject, ticks, begin, end } = admission()
    ticks(20, { answered: 2 * TICK_MS })
    begin(50)
    assert.equal(subject.hasQueue, false, '25 ms')
    begin(50)
    assert.equal(subject.hasQueue, true, '50 ms')
    subject.newOrderWaits()
    end(100)
    assert.equal(subject.hasQueue, true)
    subject.waitingNewOrderBegins()
    assert.equal(subject.hasQueue, false)
  })

  test('without a tick there is none: nothing is known of how fast it goes', () => {
    const { subject, begin } = admission()
    begin(1000)
    assert.equal(subject.hasQueue, false)
  })

  test('turns new orders away when the wait at their beginning is that of seven requests', () => {
    const { subject, ticks, ask, began } = admission()
    const wait = (count: number) => {
      for (let i = 0; i < count; i++) subject.newOrderWaits()
    }
    const letIn = (count: number) => {
      for (let i = 0; i < count; i++) subject.waitingNewOrderBegins()
    }
    // 500 a second are let in: 300 wait for 600 ms, 400 for 800.
    const turns = (count: number) => {
      for (let i = 0; i < count; i++) {
        letIn(25)
        wait(25)
        ticks(1, { answered: 2 * TICK_MS })
      }
    }
    wait(300)
    turns(40)
    assert.equal(ask('newOrder'), undefined)
    wait(100)
    turns(5)
    assert.equal(ask('newOrder')?.reason, 'delay')
    assert.equal(ask('order'), undefined)
    turns(1)
    assert.ok((began[0]?.delayMs ?? 0) > 7 * TARGET_MS)
    letIn(100)
    assert.equal(ask('newOrder'), undefined)
  })

  test('says once that it is over, two seconds after the last refusal', () => {
    const { ticks, begin, end, ask, said } = admission()
    begin(400)
    ticks(40, { answered: 2 * TICK_MS })
    for (let i = 0; i < 5; i++) ask('newOrder')
    ticks(1)
    end(400)
    ticks(38)
    assert.deepEqual(said, ['begun'])
    ticks(5)
    assert.deepEqual(said, ['begun', 'ended after 5'])
  })

  test('turns everything away when nothing comes back from the database', () => {
    const { ticks, begin, ask } = admission()
    begin(50)
    ticks(60)
    assert.equal(ask('order')?.reason, 'delay')
    assert.equal(ask('newOrder')?.reason, 'delay')
  })

  test('a few slow requests are no queue', () => {
    const { ticks, begin, ask } = admission()
    begin(10)
    ticks(60)
    assert.equal(ask('newOrder'), undefined)
  })

  test('counts the time until a request is read, where it is its own requests that keep the thread busy', () => {
    const busy = admission()
    busy.ticks(10, { lateMs: 150, arrived: 2000, utilization: 1 })
    assert.equal(busy.ask('newOrder')?.reason, 'delay')
    const fewButLarge = admission()
    fewButLarge.ticks(10, { lateMs: 150, arrived: 30, utilization: 1 })
    assert.equal(fewButLarge.ask('newOrder')?.reason, 'delay')
    const starved = admission()
    starved.ticks(10, { lateMs: 150, arrived: 20, utilization: 1 })
    assert.equal(starved.ask('newOrder'), undefined)
  })

  test('an address that takes far more than others is served last on a busy thread, and refused first', () => {
    const { subject, ticks, begin, end, ask, come } = admission()
    const traffic = () => {
      for (let i = 0; i < 100; i++) come('directory', '192.0.2.66')
      for (let other = 1; other <= 4; other++) for (let i = 0; i < 5; i++) come('order', `192.0.2.${other}`)
    }
    for (let i = 0; i < 40; i++) {
      traffic()
      ticks(1, { answered: 2 * TICK_MS, utilization: 1 })
    }
    assert.equal(subject.isServedLast('192.0.2.66'), true)
    assert.equal(subject.isServedLast('192.0.2.1'), false)
    // 120 ms: the fair have only their new orders refused, the heavy one everything.
    begin(240)
    for (let i = 0; i < 10; i++) {
      traffic()
      ticks(1, { answered: 2 * TICK_MS, utilization: 1 })
    }
    assert.deepEqual([ask('order', '192.0.2.66')?.reason, ask('order', '192.0.2.66')?.isLate], ['heavy_address', true])
    assert.equal(ask('order', '192.0.2.1'), undefined)
    end(240)
    ticks(40)
    assert.equal(subject.isServedLast('192.0.2.66'), false)
  })

  test('a flood of probes is refused, and neither an ordinary prober nor an address that is heavy by other requests', () => {
    const { ticks, begin, come, ask } = admission()
    const tick = () => {
      for (let i = 0; i < 100; i++) come('probe', '192.0.2.66')
      for (let i = 0; i < 100; i++) come('directory', '192.0.2.77')
      for (let other = 1; other <= 8; other++) for (let i = 0; i < 5; i++) come('order', `192.0.2.${other}`)
      ticks(1, { answered: 2 * TICK_MS, utilization: 1 })
    }
    begin(240)
    for (let i = 0; i < 20; i++) tick()
    assert.deepEqual([ask('probe', '192.0.2.66')?.reason, ask('probe', '192.0.2.66')?.isLate], ['heavy_address', true])
    assert.equal(ask('order', '192.0.2.77')?.reason, 'heavy_address')
    for (const prober of ['192.0.2.1', '192.0.2.77', '192.0.2.99']) assert.equal(ask('probe', prober), undefined)
  })

  test('probes of all are answered when nothing comes back from the database', () => {
    const { ticks, begin, come, ask } = admission()
    begin(50)
    for (let i = 0; i < 60; i++) {
      if (i % 20 === 0) for (const prober of ['192.0.2.1', '192.0.2.2']) come('probe', prober)
      ticks(1)
    }
    assert.equal(ask('order')?.reason, 'delay')
    for (let i = 0; i < 20; i++) assert.equal(ask('probe'), undefined)
  })

  test('more refusals than a thread can make in passing go out late', () => {
    const { ticks, begin, ask } = admission()
    begin(400)
    ticks(40, { answered: 2 * TICK_MS })
    const late = Array.from({ length: 300 }, () => ask('newOrder')?.isLate)
    assert.equal(late.indexOf(true), 200)
    ticks(1, { answered: 2 * TICK_MS })
    assert.equal(ask('newOrder')?.isLate, false)
  })
})
