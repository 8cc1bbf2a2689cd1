import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Slots } from '../../../../src/shared/lib/slots.ts'

describe('the queue of a key', () => {
  test('never runs more tasks at once than it has slots, and keeps their order', async () => {
    const queue = new Slots(2)
    let running = 0
    let most = 0
    const started: number[] = []
    await Promise.all(
      Array.from({ length: 10 }, (_, n) =>
        queue.run(Number.POSITIVE_INFINITY, async () => {
          started.push(n)
          running += 1
          most = Math.max(most, running)
          await sleep(2)
          running -= 1
        }),
      ),
    )
    assert.equal(most, 2)
    assert.deepEqual(
      started,
      Array.from({ length: 10 }, (_, n) => n),
    )
  })

  test('does not start a task whose deadline passed while it waited', async () => {
    const queue = new Slots(1)
    const slow = queue.run(Number.POSITIVE_INFINITY, () => sleep(30))
    assert.equal(await queue.run(performance.now() + 1, () => assert.fail('started')), undefined)
    await slow
    assert.equal(await queue.run(Number.POSITIVE_INFINITY, () => 'next'), 'next')
  })

  test('frees the slot of a task that failed', async () => {
    const queue = new Slots(1)
    await assert.rejects(
      queue.run(Number.POSITIVE_INFINITY, () => {
        throw new Error('device gone')
      }),
    )
    assert.equal(await queue.run(Number.POSITIVE_INFINITY, () => 'next'), 'next')
  })

  test('says when nothing runs and nothing waits any more', async () => {
    const queue = new Slots(2)
    await queue.idle()
    let ended = 0
    for (let n = 0; n < 5; n++)
      void queue.run(Number.POSITIVE_INFINITY, async () => {
        await sleep(2)
        ended += 1
      })
    await Promise.all([queue.idle(), queue.idle()])
    assert.equal(ended, 5)
  })
})
