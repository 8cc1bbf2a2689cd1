/** How often the background tasks of the challenge worker look (`challenges.background_worker.poll_seconds`). */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type BackgroundParts, backgroundTasks } from '../../../src/main/background.ts'
import { aConfig } from '../config/support.ts'

/** Of each round: whether it looked for instances that are silent. */
async function rounds(background_worker: Record<string, unknown>, count: number) {
  const looked: boolean[] = []
  const authorizations = {
    adopt: async (_: number, { staleSeconds }: { staleSeconds?: number }) => {
      looked.push(staleSeconds !== undefined)
      return []
    },
    overdue: async () => [],
  }
  const config = aConfig({ challenges: { background_worker } })
  const parts = {
    config,
    extensions: { modules: [], settings: {} },
    stores: { authorizations },
    instanceId: 1,
    presentSince: () => -60_000,
  }
  const tasks = backgroundTasks({ ...parts, live: () => config } as unknown as BackgroundParts)
  const task = tasks.find(({ name }) => name === 'challenge_adoption')
  assert.ok(task)
  for (let round = 0; round < count; round++) await task.round()
  return { looked, intervalMs: task.intervalMs }
}

test('what silent instances have is looked for every poll_seconds, what dead ones have left every two seconds', async () => {
  assert.deepEqual(await rounds({ enabled: true, poll_seconds: 6 }, 5), {
    looked: [true, false, false, true, false],
    intervalMs: 2000,
  })
  assert.deepEqual(await rounds({ enabled: true, poll_seconds: 3 }, 3), {
    looked: [true, false, true],
    intervalMs: 1500,
  })
  assert.deepEqual(await rounds({ enabled: true, poll_seconds: 1 }, 2), { looked: [true, true], intervalMs: 1000 })
  assert.deepEqual(await rounds({ enabled: false }, 2), { looked: [false, false], intervalMs: 2000 })
})
