/** Answers that are kept back: how long, in which order, how many. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { DelayedReplies } from '../../../src/overload/waiting.ts'

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
