import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Slots } from '../../../../src/shared/lib/slots.ts'
import { gate } from '../../../support/gate.ts'

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

describe('the slots of a handler', () => {
  test('lets in as many as it has places, then in turn', async () => {
    const slots = new Slots(1)
    const order: string[] = []
    const { opened: finished, open: finishFirst } = gate()
    const first = slots.run(Number.POSITIVE_INFINITY, async () => {
      await finished
      order.push('first')
    })
    const second = slots.run(Number.POSITIVE_INFINITY, async () => order.push('second'))
    finishFirst()
    await Promise.all([first, second])
    assert.deepEqual(order, ['first', 'second'])
  })

  test('gives up a wait that is too long, and loses no place by it', async () => {
    const slots = new Slots(1)
    const { opened: finished, open: finish } = gate()
    const held = slots.run(Number.POSITIVE_INFINITY, () => finished)
    assert.equal(await slots.run(performance.now() + 10, async () => 'in'), undefined)
    finish()
    await held
    assert.equal(await slots.run(performance.now() + 60_000, async () => 'in'), 'in')
  })
})
