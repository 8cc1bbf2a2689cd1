/** Supervised threads with a real HTTP server in each: crashes, orderly stops, replacement (runtime/thread.ts). */
import assert from 'node:assert/strict'
import { Agent, get } from 'node:http'
import { afterEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { spawn } from '../../src/runtime/actor.ts'
import {
  type SupervisedThread,
  superviseThread,
  type ThreadEvent,
  type ThreadOptions,
} from '../../src/runtime/thread.ts'
import { until as untilFact } from '../support/until.ts'
import type { FrontData, FrontMessages, NumbersMessages } from './front.entry.ts'

const ENTRY = new URL('./front.entry.js', import.meta.url)
const running: SupervisedThread<FrontMessages>[] = []

function front(name: string, data: FrontData, options: Partial<ThreadOptions<NumbersMessages>> = {}) {
  const events: ThreadEvent[] = []
  const thread = superviseThread<FrontMessages, NumbersMessages>({
    name,
    entry: ENTRY,
    data,
    mailboxLimit: 10,
    readyTimeoutMs: 30_000,
    stopTimeoutMs: 20_000,
    restart: { initialDelayMs: 20, maxDelayMs: 100, maxRestarts: 5, windowMs: 10_000 },
    onEvent: (event) => events.push(event),
    ...options,
  })
  running.push(thread)
  return { thread, events, seen: (type: ThreadEvent['type']) => events.filter((event) => event.type === type) }
}

async function started(...how: Parameters<typeof front>) {
  const made = front(...how)
  await made.thread.start()
  return made
}

const portOf = (thread: SupervisedThread<FrontMessages>) => thread.ref.ask('port', undefined, 30_000)

/** One request; a connection that the dying thread took with it is an undefined answer. */
function request(
  port: number,
  path = '/',
  agent = new Agent(),
  onLost: (code: string | undefined) => void = () => undefined,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    get({ host: '127.0.0.1', port, path, agent }, (response) => {
      let text = ''
      response.on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => resolve(text))
      response.on('error', () => resolve(undefined))
    }).on('error', ({ code }: NodeJS.ErrnoException) => {
      onLost(code)
      resolve(undefined)
    })
  })
}

const until = (condition: () => boolean | Promise<boolean>) => untilFact('a fact about threads', condition)

afterEach(async () => {
  await Promise.all(running.splice(0).map((thread) => thread.stop(500)))
})

describe('a supervised thread', () => {
  for (const [how, message, exitCode] of [
    ['throw', /JSON/, 1],
    ['reject', /rejected on purpose/, 1],
    ['exit', /ended with code 7/, 7],
    ['silent', /ended with code 0/, 0],
  ] as const) {
    test(`that dies by ${how} is reported with its reason and started again; its neighbour keeps the port`, async (context) => {
      const first = await started('first', { port: 0 })
      const port = await portOf(first.thread)
      const second = await started('second', { port })

      let stopLoad = false
      let answers = 0
      const load = (async () => {
        while (!stopLoad) if ((await request(port)) !== undefined) answers++
      })()
      context.after(() => {
        stopLoad = true
      })
      await until(() => answers > 20)
      const idBefore = second.thread.threadId
      second.thread.ref.tell('crash', how)
      await until(() => second.seen('ready').length === 2)
      const answersThen = answers
      await until(() => answers > answersThen + 20)
      stopLoad = true
      await load

      const [crash] = second.seen('crashed')
      assert.ok(crash?.type === 'crashed')
      assert.match(crash.error.message, message)
      assert.equal(crash.exitCode, exitCode)
      assert.notEqual(second.thread.threadId, idBefore)
      assert.equal(first.seen('crashed').length, 0)
      const names = new Set<string | undefined>()
      await until(async () => names.add(await request(port)).has('second') && names.has('first'))
    })
  }

  test('that keeps crashing escalates and stays down, the others go on', async () => {
    const other = await started('other', { port: 0 })
    const port = await portOf(other.thread)
    const restart = { initialDelayMs: 5, maxDelayMs: 5, maxRestarts: 2, windowMs: 60_000 }
    const { thread, seen } = await started('weak', { port }, { restart })
    for (let crash = 1; crash <= 3; crash++) {
      await until(() => thread.status === 'running')
      thread.ref.tell('crash', 'throw')
      await until(() => thread.crashes === crash)
    }
    assert.equal(thread.status, 'escalated')
    assert.equal(seen('escalated').length, 1)
    await assert.rejects(thread.ref.ask('port', undefined, 100), { code: 'stopped' })
    assert.equal(await request(port), 'other')
  })

  test('whose first setup fails rejects the start with the reason, closes its server and is not repeated', async () => {
    const { thread, seen } = front('broken', { port: 0, failSetup: true })
    await assert.rejects(thread.start(), /setup failed on purpose/)
    assert.equal(thread.status, 'stopped')
    assert.equal(seen('crashed').length, 0)
  })

  test('whose entry file is missing or broken rejects the start', async () => {
    const missing = front('missing', { port: 0 }, { entry: new URL('./none.js', import.meta.url) })
    await assert.rejects(missing.thread.start(), /Cannot find module/)
    const broken = front('broken', { port: 0 }, { entry: new URL('data:text/javascript,(') })
    await assert.rejects(broken.thread.start(), SyntaxError)
  })

  test('whose successor fails goes on, and may ask again', async () => {
    const { thread, seen } = await started('old', { port: 0, onlyOne: new Int32Array(new SharedArrayBuffer(4)) })
    const port = await portOf(thread)
    const before = thread.threadId
    for (let attempt = 1; attempt <= 2; attempt++) {
      assert.equal(await request(port, '/recycle'), 'old')
      await until(() => seen('recycle_failed').length === attempt)
      await sleep(20)
    }
    assert.equal(thread.threadId, before)
    assert.equal(await request(port), 'old')
  })

  test('reaches the actor that its supervisor offers', async () => {
    const asked: number[] = []
    const supervisor = spawn<NumbersMessages>({
      name: 'numbers',
      mailboxLimit: 10,
      restart: { initialDelayMs: 1, maxDelayMs: 1, maxRestarts: 0, windowMs: 1 },
      onFailure: ({ error }) => assert.fail(String(error)),
      start: () => ({
        next: (value) => {
          asked.push(value)
          return value + 1
        },
      }),
    })
    const { thread } = await started('asking', { port: 0 }, { supervisor })
    assert.equal(await request(await portOf(thread), '/supervisor'), '42')
    assert.deepEqual(asked, [41])
    supervisor.stop()
  })

  test('that takes long to start is waited for, and that is said', async () => {
    const { thread, seen } = await started('slow', { port: 0, setupMs: 1_500 }, { readyTimeoutMs: 100 })
    assert.equal(thread.status, 'running')
    assert.ok(seen('slow').length >= 1)
  })

  test('whose successor is not ready in time stays, and the successor is stopped', async () => {
    const onlyOneSetUp = new Int32Array(new SharedArrayBuffer(4))
    const { thread, seen } = await started('staying', { port: 0, onlyOneSetUp }, { readyTimeoutMs: 1_000 })
    const { threadId } = thread
    await thread.recycle('a test')
    assert.equal(seen('recycle_failed').length, 1)
    assert.deepEqual([thread.threadId, thread.status, seen('stopped').length], [threadId, 'running', 1])
  })

  test('finishes what is in flight when it is stopped', async () => {
    const slowBegun = new Int32Array(new SharedArrayBuffer(4))
    const { thread } = await started('calm', { port: 0, slowBegun })
    const slow = request(await portOf(thread), '/slow')
    await until(() => Atomics.load(slowBegun, 0) > 0)
    assert.equal(await thread.stop(), true)
    assert.equal(await slow, 'calm')
  })

  test('that does not turn its event loop is reported as stuck and not terminated', async () => {
    const { thread, seen } = await started('busy', { port: 0 })
    const state = new Int32Array(new SharedArrayBuffer(8))
    const blocked = thread.ref.ask('block', { state }, 30_000)
    await until(() => Atomics.load(state, 0) === 1)
    await assert.rejects(thread.ping(100), { code: 'deadline' })
    assert.equal(await thread.stop(100), false)
    assert.equal(seen('stuck').length, 1)
    // It hears the stop once it turns again.
    Atomics.store(state, 1, 1)
    Atomics.notify(state, 1)
    await blocked.catch(() => undefined)
  })

  test('is replaced without a moment in which nobody listens', async (context) => {
    const { thread, seen } = await started('shift', { port: 0 })
    const port = await portOf(thread)
    running.splice(running.indexOf(thread), 1)
    await thread.stop()

    const recycled = await started('shift', { port })
    const before = recycled.thread.threadId
    let stopLoad = false
    let served = 0
    const lost: (string | undefined)[] = []
    const agent = new Agent({ keepAlive: true, maxSockets: 4 })
    const load = Array.from({ length: 4 }, async () => {
      while (!stopLoad) {
        if ((await request(port, '/', agent, (code) => lost.push(code))) !== undefined) served++
      }
    })
    context.after(() => {
      stopLoad = true
    })
    await until(() => served > 50)
    assert.equal(await request(port, '/recycle'), 'shift')
    await until(() => recycled.seen('stopped').length === 1)
    const servedThen = served
    await until(() => served > servedThen + 50)
    stopLoad = true
    await Promise.all(load)
    agent.destroy()
    assert.notEqual(recycled.thread.threadId, before)
    assert.equal(recycled.seen('recycling').length, 1)
    assert.equal(seen('crashed').length, 0)
    // A request may cross with the end of its connection.
    assert.ok(!lost.includes('ECONNREFUSED'), `${lost} of ${served} requests`)
  })

  test('that is stopped while it is being replaced has ended when both threads have', async () => {
    for (const isReleased of [true, false]) {
      const { thread, seen } = await started('both', { port: 0 }, { stopTimeoutMs: isReleased ? 20_000 : 100 })
      const state = new Int32Array(new SharedArrayBuffer(8))
      thread.ref.tell('block', { state })
      await until(() => Atomics.load(state, 0) === 1)
      void thread.recycle('on purpose')
      await until(() => seen('ready').length === 2)
      const stopped = thread.stop()
      await until(() => seen('stopped').length === 1)
      const release = () => {
        Atomics.store(state, 1, 1)
        Atomics.notify(state, 1)
      }
      if (isReleased) release()
      assert.equal(await stopped, isReleased)
      assert.equal(seen('stopped').length, isReleased ? 2 : 1)
      release()
    }
  })
})

describe('a thread that another one reaches by a port of their own', () => {
  test('is reached again after the end of either; what is under way when it ends is told so', async () => {
    const peer = await started('peer', { port: 0 })
    const { thread, seen } = await started('asking', { port: 0 }, { peer: peer.thread })
    const port = await portOf(thread)
    assert.equal(await request(port, '/peer'), String(await portOf(peer.thread)))

    const waiting = request(port, '/peer-waits')
    await sleep(100)
    peer.thread.ref.tell('crash', 'throw')
    assert.match((await waiting) ?? '', /ActorError: peer is gone/)
    await until(() => peer.seen('ready').length === 2)
    await until(async () => (await request(port, '/peer')) === String(await portOf(peer.thread)))

    await thread.recycle('for the test')
    assert.equal(seen('ready').length, 2)
    assert.equal(await request(await portOf(thread), '/peer'), String(await portOf(peer.thread)))
    thread.ref.tell('crash', 'throw')
    await until(() => seen('ready').length === 3)
    assert.equal(await request(await portOf(thread), '/peer'), String(await portOf(peer.thread)))
  })

  test('is not there before its start', async () => {
    const peer = front('peer', { port: 0 })
    const { thread } = await started('asking', { port: 0 }, { peer: peer.thread })
    const port = await portOf(thread)
    assert.match((await request(port, '/peer')) ?? '', /ActorError: peer is not there yet/)
    await peer.thread.start()
    await until(async () => (await request(port, '/peer')) === String(await portOf(peer.thread)))
  })
})
