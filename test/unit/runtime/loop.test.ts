/** Background loops: one round at a time, errors do not end them, stopping waits for the current round. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { startLoop } from '../../../src/runtime/loop.ts'
import { WAIT_MS } from '../../support/patience.ts'

/** One that looks all the time, and whose rounds must not fail. */
const looking = (round: () => Promise<unknown>, more: Partial<Parameters<typeof startLoop>[0]> = {}) =>
  startLoop({
    ...{ name: 'test', intervalMs: 1, onError: (_name, error) => assert.fail(String(error)) },
    ...more,
    round: async () => void (await round()),
  })

describe('background loop', () => {
  test('rounds follow each other and never overlap', async () => {
    let running = 0
    let rounds = 0
    const loop = looking(async () => {
      assert.equal(++running, 1)
      await sleep(5)
      running--
      rounds++
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
    const round = async () => {
      if (rounds > 0) health.push(loop.healthy)
      if (++rounds === 2) throw new Error('broken')
    }
    const loop = looking(round, { onError: (name, error) => errors.push(`${name}: ${(error as Error).message}`) })
    while (rounds < 4) await sleep(5)
    await loop.stop()
    assert.deepEqual(errors, ['test: broken'])
    assert.deepEqual(health.slice(0, 3), [true, false, true])
  })

  test('the first good round after failed ones is told, once', async () => {
    const told: string[] = []
    let rounds = 0
    const round = async () => assert.ok(![2, 3].includes(++rounds), 'broken')
    const loop = looking(round, {
      onError: () => told.push(`failed ${rounds}`),
      onRecovered: (name) => told.push(`${name} ${rounds}`),
    })
    while (rounds < 6) await sleep(5)
    await loop.stop()
    assert.deepEqual(told, ['failed 2', 'failed 3', 'test 4'])
  })

  test('stopping ends a pause at once and waits for a round', async () => {
    const pausing = looking(async () => undefined, { intervalMs: 3_600_000 })
    await sleep(10)
    await pausing.stop()

    let finished = false
    const busy = looking(async () => {
      await sleep(50)
      finished = true
    })
    await busy.stop()
    assert.equal(finished, true)
  })

  test('an error of the round that is interrupted by the stop is not reported', async () => {
    const errors: unknown[] = []
    const round = () => sleep(20).then(() => Promise.reject(new Error('the database closed under it')))
    const loop = looking(round, { onError: (_name, error) => errors.push(error) })
    await loop.stop()
    assert.deepEqual(errors, [])
  })

  test('is woken from its pause, and asks anew how long the next one is', async () => {
    let interval = 3_600_000
    let rounds = 0
    const loop = looking(async () => rounds++, { intervalMs: () => interval })
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
