/** A time-out in a thread that was held up hears first what came meanwhile. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { MessageChannel } from 'node:worker_threads'
import { IdleSignal, startTimeLimit, within } from '../../../../src/shared/lib/time-limit.ts'

function holdUp(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

/** What happened first: the answer or the end of the time. */
function first(ms: number, answerAfterMs?: number): Promise<string> {
  const { port1, port2 } = new MessageChannel()
  let answering: NodeJS.Timeout | undefined
  return new Promise<string>((resolve) => {
    const cancel = startTimeLimit(ms, () => resolve('given up'))
    port1.once('message', () => {
      cancel()
      resolve('answered')
    })
    if (answerAfterMs === 0) port2.postMessage('an answer')
    else if (answerAfterMs !== undefined) answering = setTimeout(() => port2.postMessage('an answer'), answerAfterMs)
  }).finally(() => {
    clearTimeout(answering)
    port1.close()
  })
}

describe('a time limit', () => {
  test('is over when nothing has come', async () => assert.equal(await first(10), 'given up'))

  test('is not over when the answer lies there, however late the thread looks', async () => {
    const outcome = first(10, 0)
    holdUp(50)
    assert.equal(await outcome, 'answered')
  })

  test('does not wait for what comes later', async () => assert.equal(await first(10, 60_000), 'given up'))

  test('that was ended gives nothing up, neither before its time nor between its end and the last look', async () => {
    let givenUp = 0
    const early = startTimeLimit(5, () => givenUp++)
    early()
    const late = startTimeLimit(5, () => givenUp++)
    // Of the same length and behind it, so it fires in the same turn of the loop.
    setTimeout(late, 5)
    await sleep(30)
    assert.equal(givenUp, 0)
  })
})

describe('work within a time', () => {
  const late = () => new Promise<string>(() => {})

  test('is what it comes to, a failure included', async () => {
    assert.equal(await within(Promise.resolve('done'), 60_000, 'late'), 'done')
    await assert.rejects(within(Promise.reject(new Error('failed')), 60_000, 'late'), /failed/)
  })

  test('is the other thing when it takes longer, and may fail later unheard', async () => {
    assert.equal(await within(late(), 5, 'late'), 'late')
    let fail = (_error: Error): void => undefined
    const failing = new Promise<string>((_, reject) => {
      fail = reject
    })
    assert.equal(await within(failing, 5, 'late'), 'late')
    fail(new Error('failed'))
    // An unhandled rejection ends the process once these have run.
    await sleep(1)
  })

  test('is heard when it was done in time, however late the thread looks', async () => {
    const { port1, port2 } = new MessageChannel()
    const answer = new Promise<string>((resolve) => port1.once('message', () => resolve('answered')))
    const outcome = within(answer, 10, 'late').finally(() => port1.close())
    port2.postMessage('an answer')
    holdUp(50)
    assert.equal(await outcome, 'answered')
  })

  test('leaves no timer running, whether it is done or fails', async () => {
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
    const before = timers()
    await within(Promise.resolve('done'), 60_000, 'late')
    await within(Promise.reject(new Error('failed')), 60_000, 'late').catch(() => undefined)
    assert.ok(timers() <= before, `${timers()} timers after, ${before} before`)
  })
})

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
