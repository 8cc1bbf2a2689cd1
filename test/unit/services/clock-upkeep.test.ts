/** Who notices a clock that jumped, and what the slow clock is told of the time that has passed. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createClockUpkeep } from '../../../src/services/clock-upkeep.ts'

describe('rounds of the clock', () => {
  /** @param rounds when each is, in seconds of a monotonic clock, and how far the slow clock is behind then */
  async function rounds(...rounds: readonly (readonly [at: number, behind: number, of?: string])[]) {
    const [elapsed, jumps]: [number[], number[]] = [[], []]
    let now = 0
    let behind = 0
    let incarnation: string | undefined
    const round = createClockUpkeep({
      store: {
        advance: async (seconds) => {
          elapsed.push(seconds)
          return behind
        },
        endLongWaits: async () => 0,
      },
      onJump: (seconds) => jumps.push(seconds),
      incarnation: () => incarnation,
      elapsedMs: () => now * 1000,
    })
    for (const [at, lag, of] of rounds) {
      ;[now, behind, incarnation] = [at, lag, of]
      await round()
    }
    return { elapsed, jumps }
  }

  test('tell what has passed since the one before', async () => {
    assert.deepEqual(await rounds([100, 0], [110, 0], [121, 0]), { elapsed: [0, 10, 11], jumps: [] })
  })

  test('notice a jump, ahead and back', async () => {
    const { jumps } = await rounds([0, 0], [10, 3600], [20, 3590], [30, -10])
    assert.deepEqual(jumps, [3600, -3600])
  })

  test('take the older clock of a standby that took over for no jump', async () => {
    assert.deepEqual((await rounds([0, 0, 'a'], [10, 0, 'a'], [20, 600, 'b'], [30, 4200, 'b'])).jumps, [3600])
  })

  test('count no more than a minute, where another instance may have led meanwhile', async () => {
    assert.deepEqual(await rounds([0, 0], [5000, 0]), { elapsed: [0, 60], jumps: [] })
  })

  test('notice a jump of a database that was away for longer, as while its host started anew', async () => {
    assert.deepEqual((await rounds([0, 0], [120, 90_000])).jumps, [90_000])
    assert.deepEqual((await rounds([0, 0], [120, -90_000])).jumps, [-90_000])
  })

  test('take no long absence for a jump, whoever moved the slow clock meanwhile, and whether towards it or not', async () => {
    for (const [before, after] of [
      [0, 4880],
      [90_000, 85_000],
      [90_000, 94_880],
      [-90_000, -75_000],
      [-90_000, -84_880],
    ] as const)
      assert.deepEqual((await rounds([0, before], [5000, after])).jumps, [], `${before} ${after}`)
  })

  test('take a service that has caught up with a long stop for no jump', async () => {
    assert.deepEqual((await rounds([0, 90_000], [10, 89_990], [20, 89_980])).jumps, [])
  })
})
