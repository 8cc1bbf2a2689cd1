import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { IdleSignal } from '../../../../src/shared/lib/time-limit.ts'

describe('the wait until nothing is under way', () => {
  test('ends for all waiters at once', async () => {
    const idle = new IdleSignal()
    const waits = [idle.wait(), idle.wait(60_000)]
    idle.notify()
    assert.deepEqual(await Promise.all(waits), [true, true])
  })

  test('is given up after the time-out', async () => assert.equal(await new IdleSignal().wait(5), false))

  test('can begin again after it has ended', async () => {
    const idle = new IdleSignal()
    const first = idle.wait()
    idle.notify()
    await first
    assert.equal(await idle.wait(5), false, 'an earlier end does not count')
  })
})
