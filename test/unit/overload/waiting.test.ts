/** Answers that are kept back, and work that lets other work go first. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { DelayedReplies, LowPriorityQueue, tenPercentOfTick } from '../../../src/overload/waiting.ts'

describe('delayed replies', () => {
  test('lets out what is due, in order, and keeps the rest', async () => {
    const delayed = new DelayedReplies<string>({ delayMs: 100, capacity: 10 })
    const out: string[] = []
    for (const [value, at] of [
      ['a', 0],
      ['b', 50],
      ['c', 60],
    ] as const)
      void delayed.delay(value, at)?.then((one) => out.push(one))
    delayed.release(99)
    await turn()
    assert.deepEqual(out, [])
    delayed.release(155)
    await turn()
    assert.deepEqual(out, ['a', 'b'])
    assert.equal(delayed.size, 1)
    delayed.release()
    await turn()
    assert.deepEqual(out, ['a', 'b', 'c'])
  })

  test('takes no more than it has room for', () => {
    const delayed = new DelayedReplies<number>({ delayMs: 100, capacity: 2 })
    assert.ok(delayed.delay(1, 0))
    assert.ok(delayed.delay(2, 0))
    assert.equal(delayed.delay(3, 0), undefined)
    delayed.release(100)
    assert.ok(delayed.delay(4, 100))
  })
})

/** @returns how long it took, which is more where the thread has to wait for a processor */
function spin(ms: number): number {
  const begunAt = performance.now()
  while (performance.now() < begunAt + ms);
  return performance.now() - begunAt
}

describe('a low-priority queue', () => {
  test('runs everything, in order, with nothing else to do', async () => {
    const queue = new LowPriorityQueue(tenPercentOfTick)
    const ran: number[] = []
    await new Promise<void>((resolve) => {
      for (let i = 0; i < 500; i++) queue.push('a', () => void ran.push(i))
      queue.push('a', resolve)
    })
    assert.deepEqual(
      ran,
      Array.from({ length: 500 }, (_, i) => i),
    )
  })

  test('gives owners their turns: a thousand items delay one of another by one', async () => {
    const queue = new LowPriorityQueue(tenPercentOfTick)
    const ran: string[] = []
    await new Promise<void>((resolve) => {
      for (let i = 0; i < 1000; i++) queue.push('many', () => (ran.push('many') === 1001 ? resolve() : undefined))
      queue.push('one', () => void ran.push('one'))
    })
    assert.equal(ran.indexOf('one'), 1)
  })

  test('takes no more than about a tenth of a loop that is busy', async (t) => {
    const queue = new LowPriorityQueue(tenPercentOfTick)
    let [mine, others] = [0, 0]
    const refill = () => {
      spin(0.05)
      // What it would have taken alone; the other work is measured, since the queue's share is of what a turn really took.
      mine += 0.05
      if (others < 400) queue.push('a', refill)
    }
    for (let i = 0; i < 1000; i++) queue.push('a', refill)
    // Each turn of the loop brings ten milliseconds of other work.
    await new Promise<void>((resolve) => {
      const turn = () => {
        others += spin(10)
        if (others < 400) setTimeout(turn, 0)
        else resolve()
      }
      setTimeout(turn, 0)
    })
    t.diagnostic(`${mine} ms of ${mine + others}`)
    assert.ok(mine > 0)
    assert.ok(mine / (mine + others) < 0.2, `${mine} ms beside ${others}`)
  })
})
