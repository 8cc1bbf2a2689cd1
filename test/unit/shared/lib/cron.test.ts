/** A schedule, while its clock is ahead or set right. */

import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { startSchedule } from '../../../../src/shared/lib/cron.ts'

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const NOON = Date.parse('2026-05-01T12:00:00Z')

describe('a schedule', () => {
  /** Its timers are monotonic, as those of Node.js are; mocked ones with a mocked Date would follow the clock. */
  function scheduled(t: TestContext, expression: string, startMs = NOON) {
    let now = startMs
    const RealDate = Date
    globalThis.Date = class extends RealDate {
      constructor(...of: [] | [number]) {
        super(of[0] ?? now)
      }
      static override now = () => now
    } as DateConstructor
    t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
    const times: string[] = []
    const schedule = startSchedule(expression, (at) => times.push(at.toISOString().slice(11, 19)))
    t.after(async () => {
      await schedule.stop()
      globalThis.Date = RealDate
    })
    return {
      async pass(seconds: number) {
        for (let second = 0; second < seconds; second++) {
          now += SECOND_MS
          t.mock.timers.tick(SECOND_MS)
          for (let turn = 0; turn < 10; turn++) await Promise.resolve()
        }
      },
      setClock: (at: number) => {
        now = at
      },
      /** Since the last call. */
      fired: () => times.splice(0),
    }
  }

  test('is due at its times, in UTC', async (t) => {
    const { pass, fired } = scheduled(t, '*/2 12 * * *', NOON - MINUTE_MS)
    await pass(3 * 60)
    assert.deepEqual(fired(), ['12:00:00', '12:02:00'])
  })

  test('that began while the clock was an hour ahead is due once it is right', async (t) => {
    const { pass, setClock, fired } = scheduled(t, '* * * * *', NOON + HOUR_MS)
    setClock(NOON)
    await pass(120)
    assert.deepEqual(fired(), ['12:01:00', '12:02:00'])
  })

  test('is not due for the minutes over which its clock jumps, nor at a loss when it is right again', async (t) => {
    const { pass, setClock, fired } = scheduled(t, '* * * * *')
    const ahead = NOON + 30 * SECOND_MS + 400 * 24 * HOUR_MS
    setClock(ahead)
    await pass(60)
    assert.deepEqual(fired(), ['12:00:00', '12:01:00'])
    setClock(NOON + 30 * SECOND_MS)
    await pass(60)
    assert.deepEqual(fired(), ['12:01:00'])
  })

  test('is due late where its thread stood still for seconds', async (t) => {
    const { pass, setClock, fired } = scheduled(t, '0 12 * * *', NOON - SECOND_MS)
    setClock(NOON + 20 * SECOND_MS)
    await pass(1)
    assert.deepEqual(fired(), ['12:00:00'])
  })
})
