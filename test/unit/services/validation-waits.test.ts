/** A poll waits for the validation it asks about, and for nothing else. */

import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { allocateChangeCounters, type ChangeCounters, openChangeCounters } from '../../../src/lib/change-counters.ts'
import { createValidationWaits, type ValidationWaits } from '../../../src/services/validation-waits.ts'

const AUTHORIZATION = '019a0000-0000-7000-8000-0000000000a0'
const CHALLENGE = '019a0000-0000-7000-8000-0000000000a1'
const OTHER = '019a0000-0000-7000-8000-0000000001b0'
const ACCOUNT = 'an account'

describe('a poll', () => {
  let changes: ChangeCounters
  let waits: ValidationWaits
  let waiting: number
  beforeEach(() => {
    changes = openChangeCounters(allocateChangeCounters())
    waiting = 0
    waits = createValidationWaits(changes, { paused: () => waiting++, resumed: () => waiting-- })
  })

  /** As the supervisor does when an attempt has ended. */
  const record = (id = AUTHORIZATION) => changes.whileChanging(id, async () => undefined)
  const poll = (id = AUTHORIZATION, account = ACCOUNT) => waits.ended(id, account)

  async function isOver(wait: Promise<void> | undefined, withinMs = 900): Promise<boolean> {
    assert.ok(wait, 'it waits')
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(resolve, withinMs, false)
    })
    return Promise.race([wait.then(() => true), late]).finally(() => clearTimeout(timer))
  }

  /** On a machine that stood still for a second it may be over all the same. */
  async function assertItWaits(wait: Promise<void> | undefined): Promise<void> {
    const began = performance.now()
    assert.ok(!(await isOver(wait, 30)) || performance.now() - began > 900)
  }

  test('is answered at once where no attempt was handed over', () => {
    assert.equal(poll(), undefined)
  })

  test('of the authorization ends when the attempt is recorded', async () => {
    waits.began(AUTHORIZATION, ACCOUNT)
    const wait = poll()
    await assertItWaits(wait)
    await record()
    assert.equal(await isOver(wait), true)
  })

  test('of the challenge does too', async () => {
    waits.began(AUTHORIZATION, ACCOUNT)
    const wait = poll(CHALLENGE)
    await record()
    assert.equal(await isOver(wait), true)
  })

  test('does not end while the record is being written', async () => {
    waits.began(AUTHORIZATION, ACCOUNT)
    const wait = poll()
    changes.announce(AUTHORIZATION)
    await assertItWaits(wait)
    changes.announce(AUTHORIZATION)
    assert.equal(await isOver(wait), true)
  })

  test('is answered at once when the attempt was recorded before it came, and so are those after it', async () => {
    waits.began(AUTHORIZATION, ACCOUNT)
    await record()
    assert.equal(poll(), undefined)
    assert.equal(poll(), undefined)
  })

  test('after one that waited is answered at once, also while the challenge is to be tried again', async () => {
    waits.began(AUTHORIZATION, ACCOUNT)
    const wait = poll()
    await record()
    await wait
    assert.equal(poll(), undefined)
  })

  test('waits for the next attempt when the client has asked for one (RFC 8555 §8.2)', async () => {
    waits.began(AUTHORIZATION, ACCOUNT)
    await record()
    waits.began(AUTHORIZATION, ACCOUNT)
    const wait = poll()
    await assertItWaits(wait)
    await record()
    assert.equal(await isOver(wait), true)
  })

  test('still ends with the record when the challenge was handed over a second time in the midst of it', async () => {
    waits.began(AUTHORIZATION, ACCOUNT)
    changes.announce(AUTHORIZATION)
    waits.began(AUTHORIZATION, ACCOUNT)
    const wait = poll()
    changes.announce(AUTHORIZATION)
    assert.equal(await isOver(wait), true)
  })

  test('of another account, or another authorization, does not wait', () => {
    waits.began(AUTHORIZATION, ACCOUNT)
    assert.equal(poll(AUTHORIZATION, 'another account'), undefined)
    assert.equal(poll(OTHER), undefined)
  })

  test('ends after a second when there is no record', async () => {
    waits.began(AUTHORIZATION, ACCOUNT)
    const began = performance.now()
    await poll()
    const ms = performance.now() - began
    assert.ok(ms >= 999, `${ms} ms`)
  })

  test('ends when the thread stops, and none waits after that', async () => {
    waits.began(AUTHORIZATION, ACCOUNT)
    const wait = poll()
    waits.release()
    await wait
    assert.equal(poll(), undefined)
  })

  test('is not work under way while it waits', async () => {
    waits.began(AUTHORIZATION, ACCOUNT)
    const polls = [poll(), poll(CHALLENGE)]
    assert.equal(waiting, 2)
    await record()
    await Promise.all(polls)
    assert.equal(waiting, 0)
  })

  test('beyond what may wait at once is answered at once', async () => {
    waits.began(AUTHORIZATION, ACCOUNT)
    const polls = Array.from({ length: 4_096 }, () => poll())
    assert.equal(poll(), undefined)
    waits.release()
    await Promise.all(polls)
  })
})
