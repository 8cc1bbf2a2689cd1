/**
 * Worker threads as supervised children: awaited until ready, restarted with backoff, stopped and replaced in order.
 *
 * A thread is terminated from outside only if its options allow it. A thread with an HTTP server must close that server
 * itself (`thread-entry.ts`), or Node aborts the process. A thread that does not end in time is reported as `stuck` and
 * left running; the caller decides.
 */
import { once } from 'node:events'
import { MessageChannel, type MessagePort, type TransferListItem, Worker } from 'node:worker_threads'
import { THREAD_HEAP } from '../shared/lib/shared-memory.ts'
import { within } from '../shared/lib/time-limit.ts'
import { type ActorRef, type Kind, type MessageTable, spawn } from './actor.ts'
import { ActorError, type ErrorData, fromErrorData } from './errors.ts'
import {
  CONTROL_LIMIT,
  connect,
  expose,
  type HandedPort,
  type RemoteRef,
  type ThreadStart,
  type ToSupervisor,
  type ToThread,
} from './port.ts'
import { decideRestart, NO_FAILURES, type RestartHistory, type RestartPolicy } from './supervision.ts'

export interface ThreadOptions<S extends MessageTable> {
  name: string
  /** The compiled entry file that calls `runThread`: `programFile('src/…')`. */
  entry: URL
  /** Structured-clone data for the entry; each SharedArrayBuffer stays shared. */
  data: unknown
  /** The thread sees it as `context.supervisor`. */
  supervisor?: ActorRef<S>
  /** The thread reaches this one as `context.peer`, by a port of their own. */
  peer?: Pick<SupervisedThread<never>, 'openPort' | 'onReady'> | undefined
  /** Outstanding messages in each direction. */
  mailboxLimit: number
  /** The first start waits longer, and reports each time that this has passed. */
  readyTimeoutMs: number
  /** Time for an orderly stop, without `EXIT_MARGIN_MS`. */
  stopTimeoutMs: number
  restart: RestartPolicy
  /** Only for threads without native handles of their own. Default false. */
  mayTerminate?: boolean
  onEvent(event: ThreadEvent): void
}

export type ThreadEvent =
  | { type: 'ready'; name: string; threadId: number; afterMs: number }
  /** The first start takes long; it is waited for. */
  | { type: 'slow'; name: string; afterMs: number }
  | { type: 'crashed'; name: string; error: Error; exitCode: number | undefined; restartInMs: number }
  /** The thread crashed too often and stays down. */
  | { type: 'escalated'; name: string; error: Error; exitCode: number | undefined }
  | { type: 'stopped'; name: string; threadId: number }
  /** The thread did not end in time and was left running. */
  | { type: 'stuck'; name: string; threadId: number }
  /** The actor's mailbox was full or stopped, so a message from the thread was dropped. */
  | { type: 'refused'; name: string; error: Error }
  | { type: 'recycling'; name: string; reason: string }
  /** The successor did not become ready, so the old thread stays. */
  | { type: 'recycle_failed'; name: string; error: Error }

type ThreadStatus = 'new' | 'starting' | 'running' | 'backing-off' | 'stopping' | 'stopped' | 'escalated'

export interface SupervisedThread<T extends MessageTable> {
  readonly status: ThreadStatus
  /** Crashes since `start`. */
  readonly crashes: number
  readonly threadId: number | undefined
  /** Reaches the current thread. Calls fail with `stopped` while there is none. */
  readonly ref: ActorRef<T>
  /** A new port to the current thread, for another thread; undefined while there is none. */
  openPort(): MessagePort | undefined
  /** Calls back each time that a thread has become the current one. */
  onReady(listener: () => void): void
  /** Resolves when the thread is ready, however long that takes. A failed first start rejects and is not repeated. */
  start(): Promise<void>
  /** Also ends a thread that is being replaced. @returns false when a thread is stuck */
  stop(deadlineMs?: number): Promise<boolean>
  /**
   * Replaces the thread; the successor is ready before the old thread is stopped. Joins a
   * replacement already under way.
   */
  recycle(reason: string): Promise<void>
  /** Rejects with ActorError when the thread's event loop does not answer in time. */
  ping(deadlineMs: number): Promise<void>
}

export function superviseThread<
  T extends MessageTable = Record<never, never>,
  S extends MessageTable = Record<never, never>,
>(options: ThreadOptions<S>): SupervisedThread<T> {
  return new Supervised<T, S>(options)
}

/** Extra time after the thread's deadline to release its handles and end. */
const EXIT_MARGIN_MS = 1000

class Supervised<T extends MessageTable, S extends MessageTable> implements SupervisedThread<T> {
  status: ThreadStatus = 'new'
  crashes = 0
  readonly ref: ActorRef<T>
  readonly #options: ThreadOptions<S>
  #current: Instance<T, S> | undefined
  /** All that run, with those that start or end. */
  readonly #instances = new Set<Instance<T, S>>()
  readonly #readyListeners: (() => void)[] = []
  /** The successor of a crash or a recycle, until it is ready. */
  #coming: Instance<T, S> | undefined
  #history: RestartHistory = NO_FAILURES
  #restartTimer: NodeJS.Timeout | undefined
  /** Resolves to whether the replaced thread has ended. */
  #recycling: Promise<boolean> | undefined

  constructor(options: ThreadOptions<S>) {
    this.#options = options
    const current = (): ActorRef<T> => {
      if (this.#current === undefined) throw new ActorError('stopped', `${options.name} is ${this.status}`)
      return this.#current.ref
    }
    this.ref = {
      name: options.name,
      tell: (kind, message) => current().tell(kind, message),
      ask: async <K extends Kind<T>>(kind: K, message: T[K]['message'], deadlineMs: number) =>
        current().ask(kind, message, deadlineMs),
    }
    options.peer?.onReady(() => {
      for (const instance of this.#instances) this.#connectToPeer(instance)
    })
  }

  get threadId(): number | undefined {
    return this.#current?.threadId
  }

  openPort(): MessagePort | undefined {
    if (!this.#current) return undefined
    const { port1, port2 } = new MessageChannel()
    this.#current.hand('answers', port1)
    return port2
  }

  onReady(listener: () => void): void {
    this.#readyListeners.push(listener)
  }

  async start(): Promise<void> {
    if (this.status !== 'new') throw new Error(`${this.#options.name} was started before`)
    this.status = 'starting'
    try {
      await this.#bringUp()
    } catch (error) {
      this.status = 'stopped'
      throw error
    }
  }

  async stop(deadlineMs = this.#options.stopTimeoutMs): Promise<boolean> {
    this.status = 'stopping'
    clearTimeout(this.#restartTimer)
    const instances = [this.#current, this.#coming].filter((instance) => instance !== undefined)
    const ended = await Promise.all(instances.map((instance) => this.#end(instance, deadlineMs)))
    // A replaced thread keeps its own deadline, so await its end too.
    ended.push((await this.#recycling) ?? true)
    this.#current = undefined
    this.status = 'stopped'
    return ended.every(Boolean)
  }

  async recycle(reason: string): Promise<void> {
    this.#recycling ??= this.#replace(reason).finally(() => {
      this.#recycling = undefined
    })
    await this.#recycling
  }

  async ping(deadlineMs: number): Promise<void> {
    if (this.#current === undefined) throw new ActorError('stopped', `${this.#options.name} is ${this.status}`)
    await this.#current.control.ask('ping', undefined, deadlineMs)
  }

  async #replace(reason: string): Promise<boolean> {
    const { name, onEvent, stopTimeoutMs } = this.#options
    const old = this.#current
    if (this.status !== 'running' || old === undefined) return true
    onEvent({ type: 'recycling', name, reason })
    try {
      await this.#bringUp()
    } catch (error) {
      onEvent({ type: 'recycle_failed', name, error: error as Error })
      // The old thread died and its successor failed, so start another.
      if (this.#current === undefined && this.status === 'running') this.#onCrash(error as Error, undefined)
      return true
    }
    return this.#end(old, stopTimeoutMs)
  }

  /** Starts an instance and makes it current once it is ready. */
  async #bringUp(): Promise<void> {
    const { name, onEvent } = this.#options
    const begin = performance.now()
    const isFirst = this.status === 'starting' && this.crashes === 0
    const instance = new Instance<T, S>(this.#options, isFirst, (reason) => this.recycle(reason))
    this.#coming = instance
    this.#instances.add(instance)
    void instance.exited.then(() => this.#instances.delete(instance))
    this.#connectToPeer(instance)
    try {
      await instance.ready
    } catch (error) {
      // It was not ready in time, and may still hold the port.
      if (!instance.ended) await this.#end(instance, this.#options.stopTimeoutMs)
      throw error
    } finally {
      this.#coming = undefined
    }
    if (this.status === 'stopping' || this.status === 'stopped') return
    this.#current = instance
    this.status = 'running'
    onEvent({ type: 'ready', name, threadId: instance.threadId, afterMs: performance.now() - begin })
    for (const listener of this.#readyListeners) listener()
    void instance.exited.then((exit) => this.#onExit(instance, exit))
  }

  /** Without a running peer the thread gets its port later; until then its asks fail with `stopped`. */
  #connectToPeer(instance: Instance<T, S>): void {
    const port = this.#options.peer?.openPort()
    if (port) instance.hand('asks', port)
  }

  #onExit(instance: Instance<T, S>, { error, code }: Exit): void {
    if (instance !== this.#current || instance.stopping) return
    this.#current = undefined
    const { name, onEvent } = this.#options
    const reason = error ?? new Error(`${name} ended with code ${code}`)
    if (this.#coming === undefined) {
      this.#onCrash(reason, code)
      return
    }
    // It died during its replacement, so the successor serves as the restart.
    this.crashes++
    onEvent({ type: 'crashed', name, error: reason, exitCode: code, restartInMs: 0 })
  }

  #onCrash(error: Error, exitCode: number | undefined): void {
    const { name, onEvent, restart } = this.#options
    this.crashes++
    const { decision, history } = decideRestart(restart, this.#history, performance.now())
    this.#history = history
    if (decision.action === 'escalate') {
      this.status = 'escalated'
      onEvent({ type: 'escalated', name, error, exitCode })
      return
    }
    this.status = 'backing-off'
    onEvent({ type: 'crashed', name, error, exitCode, restartInMs: decision.delayMs })
    this.#restartTimer = setTimeout(() => {
      this.status = 'starting'
      this.#bringUp().catch((failure: Error) => {
        if (this.status === 'starting') this.#onCrash(failure, undefined)
      })
    }, decision.delayMs)
  }

  async #end(instance: Instance<T, S>, deadlineMs: number): Promise<boolean> {
    const { name, onEvent, mayTerminate } = this.#options
    const { threadId } = instance
    const ended = await instance.stop(deadlineMs, mayTerminate === true)
    onEvent({ type: ended ? 'stopped' : 'stuck', name, threadId })
    return ended
  }
}

interface Exit {
  code: number
  error: Error | undefined
}

/** One worker from its start to its exit. */
class Instance<T extends MessageTable, S extends MessageTable> {
  readonly threadId: number
  readonly ref: RemoteRef<T>
  readonly control: RemoteRef<ToThread>
  readonly ready: Promise<void>
  readonly exited: Promise<Exit>
  stopping = false
  ended = false
  readonly #worker: Worker
  #error: Error | undefined
  #markReady: () => void = () => undefined

  constructor(options: ThreadOptions<S>, isFirst: boolean, onRecycle: (reason: string) => Promise<void>) {
    const { name, entry, data, supervisor, mailboxLimit } = options
    const control = new MessageChannel()
    const app = new MessageChannel()
    const start: ThreadStart = { name, data, control: control.port2, app: app.port2, mailboxLimit }
    const transferList = [control.port2, app.port2] as unknown as TransferListItem[]
    this.#worker = new Worker(entry, { name, workerData: start, transferList, resourceLimits: THREAD_HEAP })
    this.threadId = this.#worker.threadId
    this.control = connect<ToThread>(control.port1, `${name} control`, CONTROL_LIMIT)
    this.ref = connect<T>(app.port1, name, mailboxLimit)

    const refused = (_kind: string, error: unknown): void =>
      options.onEvent({ type: 'refused', name, error: error as Error })
    expose(control.port1, this.#controlActor(name, onRecycle), refused)
    if (supervisor !== undefined) expose(app.port1, supervisor, refused)

    const closed = once(control.port1, 'close')
    this.#worker.on('error', (error: Error) => {
      this.#error ??= error
    })
    // Not `once`, which rejects when an error precedes the exit.
    const exit = new Promise<number>((resolve) => {
      this.#worker.on('exit', resolve)
    })
    this.exited = exit.then(async (code) => {
      // The port closes after the thread's last message, which may carry the cause of death.
      await closed
      this.ended = true
      return { code, error: this.#error }
    })
    this.ready = this.#awaitReady(options, isFirst)
  }

  #controlActor(name: string, onRecycle: (reason: string) => Promise<void>): ActorRef<ToSupervisor> {
    return spawn<ToSupervisor>({
      name: `${name} supervisor`,
      mailboxLimit: CONTROL_LIMIT,
      // A replacement takes long, and the thread may crash meanwhile.
      concurrency: CONTROL_LIMIT,
      restart: { initialDelayMs: 0, maxDelayMs: 0, maxRestarts: 0, windowMs: 1 },
      onFailure: ({ error }) => {
        throw error
      },
      start: () => ({
        ready: () => void this.#markReady(),
        crashed: (data: ErrorData) => {
          this.#error ??= fromErrorData(data)
        },
        recycle: async ({ reason }) => void (await onRecycle(reason)),
      }),
    })
  }

  /** Without the first thread there is no service: at load 55 a start took more than a minute, and then worked. */
  #awaitReady({ name, readyTimeoutMs, onEvent }: ThreadOptions<S>, isFirst: boolean): Promise<void> {
    const begin = performance.now()
    return new Promise((resolve, reject) => {
      const timer = setInterval(() => {
        if (isFirst) onEvent({ type: 'slow', name, afterMs: performance.now() - begin })
        else reject(new Error(`${name} was not ready within ${readyTimeoutMs} ms`))
      }, readyTimeoutMs)
      this.#markReady = () => {
        clearInterval(timer)
        resolve()
      }
      void this.exited.then(({ code, error }) => {
        clearInterval(timer)
        reject(error ?? new Error(`${name} ended with code ${code} before it was ready`))
      })
    })
  }

  hand(end: HandedPort['end'], port: MessagePort): void {
    this.#worker.postMessage({ end, port } satisfies HandedPort, [port as unknown as TransferListItem])
  }

  /** @returns whether the thread ended. */
  async stop(deadlineMs: number, mayTerminate: boolean): Promise<boolean> {
    this.stopping = true
    if (this.ended) return true
    try {
      this.control.tell('stop', { deadlineMs })
    } catch {
      // The thread is gone, or stuck with unread control messages. The wait below tells which.
    }
    const ended = await within(
      this.exited.then(() => true),
      deadlineMs + EXIT_MARGIN_MS,
      false,
    )
    if (!ended && mayTerminate) {
      await this.#worker.terminate()
      return true
    }
    return ended
  }
}
