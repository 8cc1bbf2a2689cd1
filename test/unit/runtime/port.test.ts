/** Actor references over a MessageChannel: the same behaviour as in one thread, with errors as data. */
import assert from 'node:assert/strict'
import { afterEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { MessageChannel } from 'node:worker_threads'
import { type Actor, spawn } from '../../../src/runtime/actor.ts'
import { fromErrorData, RemoteError, toErrorData } from '../../../src/runtime/errors.ts'
import { connect, expose } from '../../../src/runtime/port.ts'
import { WAIT_MS } from '../../support/patience.ts'

/** Longer than a stalled machine holds a test up. */
const DEADLINE_MS = WAIT_MS

type Service = {
  double: { message: number; reply: number }
  echo: { message: unknown; reply: unknown }
  wait: { message: number; reply: undefined }
  fail: { message: undefined; reply: never }
  unclonable: { message: undefined; reply: unknown }
}

class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly type = 'badCSR'
  readonly status = 400
  readonly secret = { nested: true }
}

const cleanups: (() => void)[] = []

function pair(limit = 3) {
  const { port1, port2 } = new MessageChannel()
  const refused: string[] = []
  const ended = new AbortController()
  const actor: Actor<Service> = spawn<Service>({
    name: 'service',
    mailboxLimit: 2,
    restart: { initialDelayMs: 1, maxDelayMs: 1, maxRestarts: 1, windowMs: 1000 },
    onFailure: () => undefined,
    start: () => ({
      double: (value) => value * 2,
      echo: (value) => value,
      wait: (ms) => sleep(ms, undefined, { signal: ended.signal }).catch(() => undefined),
      fail: () => {
        throw new Refusal('not this one')
      },
      unclonable: () => () => 1,
    }),
  })
  expose(port2, actor, (kind) => refused.push(kind))
  cleanups.push(() => {
    port1.close()
    actor.stop()
    ended.abort()
  })
  return { ref: connect<Service>(port1, 'service', limit), actor, refused, port1, port2 }
}

describe('a reference over a port', () => {
  afterEach(() => {
    for (const cleanup of cleanups.splice(0)) cleanup()
  })

  test('asks and gets the reply, structured data included', async () => {
    const { ref } = pair()
    assert.equal(await ref.ask('double', 21, DEADLINE_MS), 42)
    const data = { bytes: new Uint8Array([1, 2]), map: new Map([['a', 1n]]), date: new Date(0) }
    assert.deepEqual(await ref.ask('echo', data, DEADLINE_MS), data)
    assert.equal(ref.outstanding, 0)
  })

  test('gets a thrown error as data: name, message, plain properties, the stack of the origin', async () => {
    const { ref } = pair()
    const error = await ref.ask('fail', undefined, DEADLINE_MS).then(assert.fail, (reason: RemoteError) => reason)
    assert.ok(error instanceof RemoteError)
    assert.equal(error.name, 'Refusal')
    assert.equal(error.message, 'not this one')
    assert.deepEqual(error.properties, { type: 'badCSR', status: 400 })
    assert.match(error.stack ?? '', /port\.test/)
  })

  test('hears that a reply cannot be cloned, and refuses a message that cannot', async () => {
    const { ref } = pair()
    await assert.rejects(ref.ask('unclonable', undefined, DEADLINE_MS), /could not be cloned/)
    await assert.rejects(
      ref.ask('echo', () => 1, DEADLINE_MS),
      /could not be cloned/,
    )
    assert.equal(ref.outstanding, 0)
  })

  test('refuses more than its limit on their way, tells included, until they are taken', async () => {
    const { ref } = pair(2)
    const first = ref.ask('double', 1, DEADLINE_MS)
    ref.tell('wait', 5)
    assert.throws(() => ref.tell('wait', 5), { code: 'mailbox_full' })
    await assert.rejects(ref.ask('double', 1, DEADLINE_MS), { code: 'mailbox_full' })
    await first
    assert.equal(await ref.ask('double', 4, DEADLINE_MS), 8)
  })

  test('does not give up on a reply that came while its thread was held up', async () => {
    const { port1, port2 } = new MessageChannel()
    cleanups.push(() => port1.close())
    const reply = connect<Service>(port1, 'service', 3).ask('double', 1, 20)
    port2.postMessage({ id: 1, value: 2 })
    for (const end = performance.now() + 50; performance.now() < end; );
    assert.equal(await reply, 2)
  })

  test('takes tells beyond its limit when those before were taken', async () => {
    const { ref } = pair(100)
    for (let round = 0; round < 4; round++) {
      for (let i = 0; i < 100; i++) ref.tell('double', i)
      assert.equal(ref.outstanding, 100)
      while (ref.outstanding > 0) await sleep(5)
    }
  })

  test('keeps counting a message whose asker gave up, until the other side is done with it', async () => {
    const { port1, port2 } = new MessageChannel()
    cleanups.push(() => port1.close())
    const ref = connect<Service>(port1, 'service', 1)
    await assert.rejects(ref.ask('double', 1, 20), { code: 'deadline' })
    assert.throws(() => ref.tell('double', 1), { code: 'mailbox_full' })
    port2.postMessage({ id: 1, value: 2 })
    while (ref.outstanding > 0) await sleep(5)
    ref.tell('double', 1)
  })

  test('hears a full mailbox of the other side; a refused tell is reported there', async () => {
    const { ref, refused } = pair(10)
    await ref.ask('double', 1, DEADLINE_MS)
    const waits = [0, 1, 2].map(() => ref.ask('wait', 20, DEADLINE_MS))
    const full = ref.ask('double', 1, DEADLINE_MS)
    ref.tell('double', 1)
    await assert.rejects(full, { name: 'ActorError', code: 'mailbox_full' })
    await Promise.all(waits)
    assert.deepEqual(refused, ['double'])
  })

  test('is stopped when the other end is gone: open asks are rejected, new ones refused', async () => {
    const { ref, port2 } = pair()
    const open = assert.rejects(ref.ask('wait', 60_000, DEADLINE_MS), { code: 'stopped' })
    await sleep(10)
    port2.close()
    await open
    await assert.rejects(ref.ask('double', 1, DEADLINE_MS), { code: 'stopped' })
    assert.throws(() => ref.tell('double', 1), { code: 'stopped' })
  })

  test('may share its port with one in the other direction', async () => {
    const { ref, port1, port2, actor } = pair()
    expose(port1, actor, assert.fail)
    const back = connect<Service>(port2, 'back', 5)
    assert.deepEqual(await Promise.all([ref.ask('double', 1, DEADLINE_MS), back.ask('double', 2, DEADLINE_MS)]), [2, 4])
  })
})

describe('errors as data', () => {
  test('are made of anything that can be thrown', () => {
    for (const thrown of [
      'text',
      undefined,
      null,
      7,
      { a: 1 },
      Symbol('s'),
      new Refusal('x'),
      new AggregateError([], 'y'),
    ]) {
      const data = structuredClone(toErrorData(thrown))
      assert.equal(typeof fromErrorData(data).message, 'string')
    }
  })
})
