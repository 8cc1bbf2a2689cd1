/** Background tasks: how often they look, and what the log says of one that fails again and again. */

import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import pino, { type Logger } from 'pino'
import { type BackgroundParts, backgroundTasks } from '../../../src/main/background.ts'
import { createFailureLog } from '../../../src/main/background-tasks.ts'
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
    ca: {},
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

const AWAY = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })

describe('a background task that fails', () => {
  let lines: Record<string, unknown>[]
  let log: Logger
  let now: number
  beforeEach(() => {
    lines = []
    now = 0
    const destination = { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) }
    log = pino(
      { level: 'info', base: null, timestamp: false, formatters: { level: (level) => ({ level }) } },
      destination,
    )
  })

  test('has one line without a stack when it begins to, and one when it works again', () => {
    const failures = createFailureLog(log, () => now)
    for (let round = 0; round < 5; round++) failures.failed('expiry', AWAY)
    failures.recovered('expiry')
    assert.deepEqual(lines, [
      {
        level: 'error',
        task: 'expiry',
        failures: 1,
        reason: 'connect ECONNREFUSED',
        msg: 'background task failed; it is tried again',
      },
      { level: 'warn', task: 'expiry', failures: 5, msg: 'background task works again' },
    ])
  })

  test('has its line however many others fail, and again in the next episode', () => {
    const failures = createFailureLog(log, () => now)
    failures.failed('expiry', AWAY)
    failures.failed('adoption', AWAY)
    failures.recovered('expiry')
    failures.failed('expiry', AWAY)
    failures.failed('adoption', AWAY)
    const found = lines.map(({ level, task }) => [level, task])
    assert.deepEqual(found, [
      ['error', 'expiry'],
      ['error', 'adoption'],
      ['warn', 'expiry'],
      ['error', 'expiry'],
    ])
  })

  test('is named again after ten minutes, with the reason of then', () => {
    const failures = createFailureLog(log, () => now)
    failures.failed('expiry', AWAY)
    now = 599_999
    failures.failed('expiry', new Error('other'))
    now = 600_000
    failures.failed('expiry', new Error('permission denied for table orders'))
    const found = lines.map(({ failures: count, reason }) => [count, reason])
    assert.deepEqual(found, [
      [1, 'connect ECONNREFUSED'],
      [3, 'permission denied for table orders'],
    ])
  })

  test('by a fault of the program shows the stack', () => {
    createFailureLog(log).failed('expiry', new TypeError('x is not a function'))
    assert.match(JSON.stringify(lines[0]?.['err']), /TypeError.*background\.test/)
  })

  test('for a reason that is a level below says that one, too', () => {
    const failures = createFailureLog(log)
    failures.failed('a', new AggregateError([AWAY, AWAY]))
    failures.failed('b', new AggregateError([AWAY], '1 interrupted issuance(s) could not be recovered'))
    failures.failed('c', new Error('the CA failed', { cause: AWAY }))
    const reasons = lines.map(({ reason }) => reason)
    assert.deepEqual(reasons, [
      'connect ECONNREFUSED',
      '1 interrupted issuance(s) could not be recovered: connect ECONNREFUSED',
      'the CA failed: connect ECONNREFUSED',
    ])
  })
})
