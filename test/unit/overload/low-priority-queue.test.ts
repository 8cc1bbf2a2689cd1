/** Work that lets other work go first: its share of a busy loop, and of an idle one. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { LowPriorityQueue, tenPercentOfTick } from '../../../src/overload/waiting.ts'

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
