/** Answers that are kept back: how long, in which order, how many. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { HoldingPen } from '../../../src/overload/holding-pen.ts'

describe('a holding pen', () => {
  test('lets out what is due, in order, and keeps the rest', async () => {
    const pen = new HoldingPen<string>({ holdMs: 100, capacity: 10 })
    const out: string[] = []
    for (const [value, at] of [
      ['a', 0],
      ['b', 50],
      ['c', 60],
    ] as const)
      void pen.hold(value, at)?.then((one) => out.push(one))
    pen.release(99)
    await turn()
    assert.deepEqual(out, [])
    pen.release(155)
    await turn()
    assert.deepEqual(out, ['a', 'b'])
    assert.equal(pen.size, 1)
    pen.release()
    await turn()
    assert.deepEqual(out, ['a', 'b', 'c'])
  })

  test('takes no more than it has room for', () => {
    const pen = new HoldingPen<number>({ holdMs: 100, capacity: 2 })
    assert.ok(pen.hold(1, 0))
    assert.ok(pen.hold(2, 0))
    assert.equal(pen.hold(3, 0), undefined)
    pen.release(100)
    assert.ok(pen.hold(4, 100))
  })
})
