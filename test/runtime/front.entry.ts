/** A front thread in small, as the tests start it: an HTTP server on a shared port that can be told to die. */
import { setTimeout as sleep } from 'node:timers/promises'
import { listen } from '../../src/http/uws.ts'
import { spawn } from '../../src/runtime/actor.ts'
import { runThread } from '../../src/runtime/thread-entry.ts'

export interface FrontData {
  port: number
  /** Counts the requests for `/slow` that have begun. */
  slowBegun?: Int32Array<SharedArrayBuffer>
  failSetup?: boolean
  /** How long the set-up takes. */
  setupMs?: number
  /** Counts the threads that were given it; all but the first hang. */
  onlyOneSetUp?: Int32Array<SharedArrayBuffer>
  /** Counts the threads that were given it; all but the first fail. */
  onlyOne?: Int32Array<SharedArrayBuffer>
}

export type NumbersMessages = {
  next: { message: number; reply: number }
}

export type FrontMessages = {
  port: { message: undefined; reply: number }
  crash: { message: 'throw' | 'reject' | 'exit' | 'silent'; reply: undefined }
  /** Is never answered. */
  wait: { message: undefined; reply: undefined }
  /** Says so in the first place of `state`, and keeps the event loop until the second is not 0 any more. */
  block: { message: { state: Int32Array<SharedArrayBuffer> }; reply: undefined }
}

function die(how: FrontMessages['crash']['message']): void {
  if (how === 'throw') setTimeout(() => JSON.parse('{'), 0)
  else if (how === 'reject') void Promise.reject(new RangeError('rejected on purpose'))
  else if (how === 'exit') setTimeout(() => process.exit(7), 0)
  else setTimeout(() => process.exit(0), 0)
}

runThread<FrontData, FrontMessages, NumbersMessages, FrontMessages>(async (thread) => {
  const { name, data, supervisor, peer, atExit, requestRecycle } = thread
  const server = listen({
    host: '127.0.0.1',
    port: data.port,
    maxBodyBytes: 1024,
    keptHeaders: [],
    handler: async ({ path }) => {
      // Dying within the library's own callback is the hardest way to go.
      if (path === '/reject') void Promise.reject(new RangeError('rejected in a request'))
      if (path === '/exit') process.exit(9)
      if (path === '/slow') {
        if (data.slowBegun) Atomics.add(data.slowBegun, 0, 1)
        await sleep(300)
      }
      if (path === '/peer') return { status: 200, headers: [], body: String(await peer.ask('port', undefined, 30_000)) }
      if (path === '/peer-waits') await peer.ask('wait', undefined, 30_000)
      if (path === '/recycle') requestRecycle('a request said so')
      const body = path === '/supervisor' ? String(await supervisor.ask('next', 41, 30_000)) : name
      return { status: 200, headers: [], body }
    },
    onError: (error) => ({ status: 500, headers: [], body: String(error) }),
    tooLarge: () => ({ status: 413, headers: [], body: '' }),
    badRequest: () => ({ status: 400, headers: [], body: '' }),
  })
  atExit(() => server.close())
  if (data.onlyOne !== undefined && Atomics.add(data.onlyOne, 0, 1) > 0) throw new Error('no successor')
  if (data.failSetup) throw new TypeError('setup failed on purpose')
  if (data.setupMs !== undefined) await sleep(data.setupMs)
  if (data.onlyOneSetUp !== undefined && Atomics.add(data.onlyOneSetUp, 0, 1) > 0) await new Promise(() => undefined)

  const actor = spawn<FrontMessages>({
    name: `${name} actor`,
    mailboxLimit: 100,
    concurrency: 10,
    restart: { initialDelayMs: 1, maxDelayMs: 1, maxRestarts: 1, windowMs: 1000 },
    onFailure: ({ error }) => {
      throw error
    },
    start: () => ({
      port: () => server.port,
      crash: (how) => void die(how),
      wait: () => new Promise<undefined>(() => undefined),
      block: ({ state }) => {
        Atomics.store(state, 0, 1)
        Atomics.wait(state, 1, 0)
        return undefined
      },
    }),
  })
  return { actor, drain: (deadlineMs) => server.drain(deadlineMs) }
})
