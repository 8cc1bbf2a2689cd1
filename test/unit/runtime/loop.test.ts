/** Background loops: one round at a time, errors do not end them, stopping waits for the current round. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { startLoop } from '../../../src/runtime/loop.ts'
import { WAIT_MS } from '../../support/patience.ts'

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

describe('background loop', () => {
  test('rounds follow each other and never overlap', async () => {
    let running = 0
    let rounds = 0
    const loop = startLoop({
      name: 'test',
      intervalMs: 1,
      async round() {
        assert.equal(++running, 1)
        await sleep(5)
        running--
        rounds++
      },
      onError: (_name, error) => assert.fail(String(error)),
    })
    while (rounds < 3) await sleep(5)
    await loop.stop()
    const atStop = rounds
    await sleep(20)
    assert.equal(rounds, atStop)
  })

  test('a failed round is reported with the name, and the next one mends the health', async () => {
    const errors: string[] = []
    const health: boolean[] = []
    let rounds = 0
    const loop = startLoop({
      name: 'cleanup',
      intervalMs: 1,
      async round() {
        if (rounds > 0) health.push(loop.healthy)
        if (++rounds === 2) throw new Error('broken')
      },
      onError: (name, error) => errors.push(`${name}: ${(error as Error).message}`),
    })
    while (rounds < 4) await sleep(5)
    await loop.stop()
    assert.deepEqual(errors, ['cleanup: broken'])
    assert.deepEqual(health.slice(0, 3), [true, false, true])
  })

  test('the first good round after failed ones is told, once', async () => {
    const told: string[] = []
    let rounds = 0
    const loop = startLoop({
      name: 'cleanup',
      intervalMs: 1,
      async round() {
        if ([2, 3].includes(++rounds)) throw new Error('broken')
      },
      onError: () => told.push(`failed ${rounds}`),
      onRecovered: (name) => told.push(`${name} ${rounds}`),
    })
    while (rounds < 6) await sleep(5)
    await loop.stop()
    assert.deepEqual(told, ['failed 2', 'failed 3', 'cleanup 4'])
  })

  test('stopping ends a pause at once and waits for a round', async () => {
    const pausing = startLoop({ name: 'pause', intervalMs: 3_600_000, round: async () => undefined, onError() {} })
    await sleep(10)
    await pausing.stop()

    let finished = false
    const busy = startLoop({
      name: 'busy',
      intervalMs: 1,
      async round() {
        await sleep(50)
        finished = true
      },
      onError() {},
    })
    await busy.stop()
    assert.equal(finished, true)
  })

  test('an error of the round that is interrupted by the stop is not reported', async () => {
    const errors: unknown[] = []
    const loop = startLoop({
      name: 'last',
      intervalMs: 1,
      async round() {
        await sleep(20)
        throw new Error('the database closed under it')
      },
      onError: (_name, error) => errors.push(error),
    })
    await loop.stop()
    assert.deepEqual(errors, [])
  })

  test('is woken from its pause, and asks anew how long the next one is', async () => {
    let interval = 3_600_000
    let rounds = 0
    const loop = startLoop({
      name: 'test',
      intervalMs: () => interval,
      async round() {
        rounds++
      },
      onError: (_name, error) => assert.fail(String(error)),
    })
    // The pause has begun.
    await sleep(20)
    interval = 1
    await sleep(20)
    const before = rounds
    loop.wake()
    const deadline = Date.now() + WAIT_MS
    while (rounds < 4 && Date.now() < deadline) await sleep(5)
    await loop.stop()
    assert.equal(before, 1)
    assert.ok(rounds >= 4)
  })
})
