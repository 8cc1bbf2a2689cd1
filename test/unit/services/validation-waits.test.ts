/** What asks about a validation waits for its end, and for nothing else. */

import assert from 'node:assert/strict'
import { beforeEach, describe, mock, test } from 'node:test'
import { createValidationWaits, type ValidationWaits } from '../../../src/services/validation-waits.ts'

const AUTHORIZATION = '019a0000-0000-7000-8000-0000000000a0'
const CHALLENGE = '019a0000-0000-7000-8000-0000000000a1'
const OTHER = '019a0000-0000-7000-8000-0000000001b0'
const ACCOUNT = 'an account'

describe('a poll', () => {
  let waits: ValidationWaits
  let waiting: number
  beforeEach(() => {
    waiting = 0
    waits = createValidationWaits({ paused: () => waiting++, resumed: () => waiting-- })
    waits.began(AUTHORIZATION, ACCOUNT)
  })

  const poll = (id = AUTHORIZATION, account = ACCOUNT, maxMs?: number) => waits.untilOver(id, account, maxMs)

  /** On a machine that stood still for a second it may be over all the same. */
  async function assertItWaits(wait: ReturnType<typeof poll>): Promise<void> {
    assert.ok(wait, 'it waits')
    const began = performance.now()
    let isOver = false
    void wait.then(() => {
      isOver = true
    })
    await new Promise((resolve) => setTimeout(resolve, 30))
    assert.ok(!isOver || performance.now() - began > 900)
  }

  test('is answered at once where no attempt was handed over', () => assert.equal(poll(OTHER), undefined))

  test('of the authorization ends when the attempt is recorded', async () => {
    const wait = poll()
    await assertItWaits(wait)
    waits.over(AUTHORIZATION, 'recorded')
    assert.equal(await wait, 'recorded')
  })

  test('of the challenge does too, also when nothing is to be recorded any more', async () => {
    const wait = poll(CHALLENGE)
    waits.over(AUTHORIZATION, 'void')
    assert.equal(await wait, 'void')
  })

  test('is answered at once when the attempt was over before it came, and so are those after it', () => {
    waits.over(AUTHORIZATION, 'recorded')
    assert.equal(poll(), undefined)
    assert.equal(poll(), undefined)
  })

  test('after one that waited is answered at once, also while the challenge is to be tried again', async () => {
    const wait = poll()
    waits.over(AUTHORIZATION, 'recorded')
    await wait
    assert.equal(poll(), undefined)
  })

  test('waits for the next attempt when the client has asked for one (RFC 8555 §8.2)', async () => {
    waits.over(AUTHORIZATION, 'recorded')
    waits.began(AUTHORIZATION, ACCOUNT)
    const wait = poll()
    await assertItWaits(wait)
    waits.over(AUTHORIZATION, 'recorded')
    assert.equal(await wait, 'recorded')
  })

  test('ends with the attempt that runs when the challenge was handed over a second time meanwhile', async () => {
    const wait = poll()
    waits.began(AUTHORIZATION, ACCOUNT)
    waits.over(AUTHORIZATION, 'recorded')
    assert.equal(await wait, 'recorded')
  })

  test('of another account, or another authorization, does not wait', () => {
    assert.equal(poll(AUTHORIZATION, 'another account'), undefined)
    assert.equal(poll(OTHER), undefined)
  })

  test('ends after a second when there is no news', async () => {
    const began = performance.now()
    assert.equal(await poll(), undefined)
    const ms = performance.now() - began
    assert.ok(ms >= 999, `${ms} ms`)
  })

  test('ends after the time it has, and the next one waits again', async () => {
    const began = performance.now()
    assert.equal(await poll(AUTHORIZATION, ACCOUNT, 40), undefined)
    const ms = performance.now() - began
    assert.ok(ms >= 39, `${ms} ms`)
    const wait = poll()
    waits.over(AUTHORIZATION, 'recorded')
    assert.equal(await wait, 'recorded')
  })

  test('does not wait for an attempt of which nothing was heard for a minute, but for the next one', async () => {
    const now = performance.now()
    mock.method(performance, 'now', () => now + 61_000)
    assert.equal(poll(), undefined)
    waits.began(AUTHORIZATION, ACCOUNT)
    const wait = poll()
    mock.restoreAll()
    waits.over(AUTHORIZATION, 'recorded')
    assert.equal(await wait, 'recorded')
  })

  test('ends when the thread stops, and none waits after that', async () => {
    const wait = poll()
    waits.release()
    assert.equal(await wait, undefined)
    assert.equal(poll(), undefined)
  })

  test('is not work under way while it waits', async () => {
    const polls = [poll(), poll(CHALLENGE)]
    assert.equal(waiting, 2)
    waits.over(AUTHORIZATION, 'recorded')
    await Promise.all(polls)
    assert.equal(waiting, 0)
  })

  test('beyond what may wait at once is answered at once', async () => {
    const polls = Array.from({ length: 4_096 }, () => poll())
    assert.equal(poll(), undefined)
    waits.release()
    await Promise.all(polls)
  })
})
