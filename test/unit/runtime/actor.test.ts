import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { type ActorFailure, type ActorOptions, type Call, spawn } from '../../../src/runtime/actor.ts'
import { ActorError } from '../../../src/runtime/errors.ts'
import { WAIT_MS } from '../../support/patience.ts'
import { forAllAsync } from '../../support/property-runs.ts'

/** Longer than a stalled machine holds a test up. */
const DEADLINE_MS = WAIT_MS

type Counter = {
  add: { message: number; reply: number }
  slow: { message: { ms: number; mark: string }; reply: string }
  fail: { message: string; reply: never }
  breakState: { message: undefined; reply: undefined }
}

function counter(options: Partial<ActorOptions<Counter>> = {}) {
  const failures: ActorFailure[] = []
  const log: string[] = []
  let starts = 0
  const actor = spawn<Counter>({
    name: 'counter',
    mailboxLimit: 3,
    restart: { initialDelayMs: 10, maxDelayMs: 10, maxRestarts: 2, windowMs: 60_000 },
    onFailure: (failure) => failures.push(failure),
    start: ({ fail }) => {
      starts++
      let total = 0
      return {
        add: (value) => {
          total += value
          return total
        },
        slow: async ({ ms, mark }) => {
          log.push(`+${mark}`)
          await sleep(ms)
          log.push(`-${mark}`)
          return mark
        },
        fail: (text) => {
          throw new RangeError(text)
        },
        breakState: () => {
          fail(new Error('broken state'))
          return undefined
        },
      }
    },
    ...options,
  })
  return { actor, failures, log, starts: () => starts }
}

describe('an actor', () => {
  test('handles messages one by one, in order', async () => {
    const { actor, log } = counter()
    const first = actor.ask('slow', { ms: 20, mark: 'a' }, DEADLINE_MS)
    const second = actor.ask('slow', { ms: 1, mark: 'b' }, DEADLINE_MS)
    assert.deepEqual(await Promise.all([first, second]), ['a', 'b'])
    assert.deepEqual(log, ['+a', '-a', '+b', '-b'])
    actor.tell('add', 5)
    assert.equal(await actor.ask('add', 1, 100), 6)
    actor.stop()
  })

  test('with concurrency handles that many at a time', async () => {
    const { actor, log } = counter({ concurrency: 2 })
    await Promise.all(['a', 'b', 'c'].map((mark) => actor.ask('slow', { ms: 10, mark }, DEADLINE_MS)))
    assert.deepEqual(log.slice(0, 2), ['+a', '+b'])
    assert.ok(log.indexOf('+c') > Math.min(log.indexOf('-a'), log.indexOf('-b')))
    actor.stop()
  })

  test('with a full mailbox refuses at once, and accepts again when there is room', async () => {
    const { actor } = counter()
    await actor.ask('add', 0, 100)
    const accepted = ['a', 'b', 'c', 'd'].map((mark) => actor.ask('slow', { ms: 5, mark }, DEADLINE_MS))
    assert.equal(actor.running, 1)
    assert.equal(actor.queued, 3)
    assert.throws(() => actor.tell('add', 1), { name: 'ActorError', code: 'mailbox_full' })
    await assert.rejects(actor.ask('add', 1, 100), { code: 'mailbox_full' })
    await Promise.all(accepted)
    assert.equal(await actor.ask('add', 1, 100), 1)
    actor.stop()
  })

  test('does not begin what nobody waits for any more, and gives the room back', async () => {
    const { actor, log } = counter()
    const long = actor.ask('slow', { ms: 50, mark: 'long' }, DEADLINE_MS)
    await assert.rejects(actor.ask('slow', { ms: 0, mark: 'late' }, 10), { code: 'deadline' })
    assert.equal(actor.queued, 0)
    await long
    await sleep(5)
    assert.ok(!log.includes('+late'))
    actor.stop()
  })

  test('tells its handlers the deadline', async () => {
    const calls: Call[] = []
    const actor = spawn<{ note: { message: undefined; reply: undefined } }>({
      name: 'notes',
      mailboxLimit: 5,
      restart: { initialDelayMs: 1, maxDelayMs: 1, maxRestarts: 0, windowMs: 1 },
      onFailure: ({ error }) => assert.fail(String(error)),
      start: () => ({
        note: (_message, call) => {
          calls.push(call)
          return undefined
        },
      }),
    })
    actor.tell('note', undefined)
    const before = performance.now()
    await actor.ask('note', undefined, 500)
    assert.equal(calls[0]?.deadlineAt, Number.POSITIVE_INFINITY)
    assert.ok(calls[1]!.deadlineAt >= before + 500 && calls[1]!.deadlineAt <= performance.now() + 500)
    actor.stop()
  })

  test('answers an ask with what its handler threw, and keeps its state', async () => {
    const { actor, failures, starts } = counter()
    actor.tell('add', 4)
    await assert.rejects(actor.ask('fail', 'for the asker', 100), new RangeError('for the asker'))
    assert.equal(await actor.ask('add', 0, 100), 4)
    assert.equal(failures.length, 0)
    assert.equal(starts(), 1)
    actor.stop()
  })

  test('that fails on a tell starts anew with a fresh state; messages wait meanwhile', async () => {
    const { actor, failures, starts } = counter()
    await actor.ask('add', 4, 100)
    actor.tell('fail', 'nobody asked')
    const waiting = actor.ask('add', 1, DEADLINE_MS)
    assert.equal(await waiting, 1)
    assert.equal(starts(), 2)
    const found = failures.map((failure) => [failure.action, (failure.error as Error).message])
    assert.deepEqual(found, [['restart', 'nobody asked']])
    actor.stop()
  })

  test('that declares its state broken starts anew', async () => {
    const { actor, starts } = counter()
    await actor.ask('breakState', undefined, 100)
    assert.equal(actor.status, 'backing-off')
    assert.equal(await actor.ask('add', 1, DEADLINE_MS), 1)
    assert.equal(starts(), 2)
    actor.stop()
  })

  test('that fails too often escalates: what waits is rejected, what comes is refused', async () => {
    const { actor, failures } = counter({ mailboxLimit: 10 })
    for (let failure = 0; failure < 3; failure++) actor.tell('fail', `failure ${failure}`)
    await assert.rejects(actor.ask('add', 1, DEADLINE_MS), { code: 'stopped' })
    const actions = failures.map(({ action }) => action)
    assert.deepEqual(actions, ['restart', 'restart', 'escalate'])
    assert.equal(actor.status, 'stopped')
    assert.throws(() => actor.tell('add', 1), { code: 'stopped' })
  })

  test('whose start fails is a failure like any other', async () => {
    let starts = 0
    const { actor, failures } = counter({
      start: () => {
        starts++
        throw new Error('no start')
      },
    })
    await assert.rejects(actor.ask('add', 1, DEADLINE_MS), { code: 'stopped' })
    assert.equal(starts, 3)
    assert.equal(failures.at(-1)?.action, 'escalate')
  })

  test('refuses kinds that are not in its table, inherited names included', async () => {
    const { actor } = counter()
    for (const kind of ['nothing', 'constructor', '__proto__', 'toString'])
      await assert.rejects(actor.ask(kind as 'add', 1, 100), /has no message/)
    actor.stop()
  })
})

describe('draining an actor', () => {
  test('refuses new messages and finishes the accepted ones', async () => {
    const { actor, log } = counter()
    const accepted = ['a', 'b'].map((mark) => actor.ask('slow', { ms: 10, mark }, DEADLINE_MS))
    const drained = actor.drain(DEADLINE_MS)
    assert.equal(actor.status, 'draining')
    assert.throws(() => actor.tell('add', 1), { code: 'stopped' })
    assert.deepEqual(await Promise.all(accepted), ['a', 'b'])
    assert.equal(await drained, 0)
    assert.equal(actor.status, 'stopped')
    assert.deepEqual(log, ['+a', '-a', '+b', '-b'])
  })

  test('before its start has ended finishes what was accepted', async () => {
    const { actor } = counter()
    const accepted = actor.ask('add', 2, DEADLINE_MS)
    assert.equal(await actor.drain(DEADLINE_MS), 0)
    assert.equal(await accepted, 2)
  })

  test('ends at the deadline, rejects what is left and says how much', async () => {
    const { actor } = counter()
    await actor.ask('add', 0, 100)
    const running = actor.ask('slow', { ms: 60, mark: 'a' }, DEADLINE_MS)
    const waiting = assert.rejects(actor.ask('add', 1, DEADLINE_MS), { code: 'stopped' })
    assert.equal(await actor.drain(10), 2)
    await waiting
    assert.equal(await running, 'a')
  })

  test('twice gives both callers an end', async () => {
    const { actor } = counter()
    actor.tell('slow', { ms: 20, mark: 'a' })
    assert.deepEqual(await Promise.all([actor.drain(DEADLINE_MS), actor.drain(DEADLINE_MS)]), [0, 0])
  })
})

describe('a mailbox', () => {
  test('never holds more than its limit, and every ask is settled exactly once', async () => {
    const plan = fc.array(fc.record({ ms: fc.nat(2), deadline: fc.integer({ min: 1, max: 6 }) }), { maxLength: 30 })
    await forAllAsync(40, plan, fc.integer({ min: 1, max: 4 }), async (asks, concurrency) => {
      const { actor } = counter({ concurrency, mailboxLimit: 4 })
      const outcomes = asks.map(({ ms, deadline }) => {
        const outcome = actor.ask('slow', { ms, mark: 'x' }, deadline).then(
          () => 'done',
          (error) => (error instanceof ActorError ? error.code : 'other'),
        )
        assert.ok(actor.queued <= 4)
        assert.ok(actor.running <= concurrency)
        return outcome
      })
      const settled = await Promise.all(outcomes)
      assert.ok(!settled.includes('other'))
      await actor.drain(DEADLINE_MS)
      assert.equal(actor.running + actor.queued, 0)
    })
  })
})
