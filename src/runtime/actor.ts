/**
 * Actors: a state with a bounded mailbox, reached only by typed messages.
 *
 * A message table names each kind with its message and its reply. `tell` expects no reply; `ask`
 * waits for one until its deadline. Both refuse at once when the mailbox is full. So overload is an
 * error at the sender and costs no memory here. A handler's error rejects its `ask`. On a `tell` it
 * restarts the actor with a fresh state, until the restart policy gives up.
 */
import { ActorError } from './errors.ts'
import { decideRestart, NO_FAILURES, type RestartHistory, type RestartPolicy } from './supervision.ts'

/** Maps a kind to its message and reply. Only structured-clone data, so an actor may move to another thread. */
export type MessageTable = Record<string, { message: unknown; reply: unknown }>
export type Kind<T extends MessageTable> = keyof T & string

export type Handlers<T extends MessageTable> = {
  [K in Kind<T>]: (message: T[K]['message'], call: Call) => T[K]['reply'] | Promise<T[K]['reply']>
}

export interface Call {
  /** `performance.now()` after which the sender drops the reply; Infinity for a `tell`. */
  deadlineAt: number
}

/** A reference works the same in this thread and across a port (`port.ts`). */
export interface ActorRef<T extends MessageTable> {
  readonly name: string
  /** @throws ActorError `mailbox_full` or `stopped` */
  tell<K extends Kind<T>>(kind: K, message: T[K]['message']): void
  /**
   * Rejects with ActorError `mailbox_full`, `stopped` or `deadline`, or with the handler's error. An error from another
   * thread is a RemoteError with its name, message and plain properties. A message that expires in the mailbox is
   * dropped; a running handler finishes, but its reply is dropped.
   */
  ask<K extends Kind<T>>(kind: K, message: T[K]['message'], deadlineMs: number): Promise<T[K]['reply']>
}

export interface ActorOptions<T extends MessageTable> {
  name: string
  /** Builds the state, at first and after each failure. An error in it counts as a failure. */
  start(context: ActorContext): Handlers<T> | Promise<Handlers<T>>
  /** Waiting messages, without those in handlers. */
  mailboxLimit: number
  /** Messages handled concurrently; default 1. */
  concurrency?: number
  restart: RestartPolicy
  /** Reports each failure and the action taken. After `escalate` the actor is stopped for good. */
  onFailure(failure: ActorFailure): void
}

interface ActorContext {
  readonly name: string
  /** Declares the state broken and restarts the actor. Ignored when called for a replaced state. */
  fail(error: unknown): void
}

export type ActorFailure =
  | { action: 'restart'; name: string; error: unknown; delayMs: number }
  | { action: 'escalate'; name: string; error: unknown }

export interface Actor<T extends MessageTable> extends ActorRef<T> {
  readonly status: ActorStatus
  readonly queued: number
  readonly running: number
  /**
   * Refuses new messages and finishes accepted ones until the deadline, then rejects the rest.
   * @returns how many messages were left
   */
  drain(deadlineMs: number): Promise<number>
  /** Refuses new messages and rejects the waiting ones now. Running handlers finish. */
  stop(): void
}

type ActorStatus = 'starting' | 'running' | 'backing-off' | 'draining' | 'stopped'

export function spawn<T extends MessageTable>(options: ActorOptions<T>): Actor<T> {
  return new LocalActor(options)
}

interface Envelope {
  kind: string
  message: unknown
  deadlineAt: number
  resolve?(reply: unknown): void
  reject?(error: unknown): void
}

type AnyHandler = (message: unknown, call: Call) => unknown

class LocalActor<T extends MessageTable> implements Actor<T> {
  readonly name: string
  running = 0
  readonly #options: ActorOptions<T>
  readonly #concurrency: number
  /** In order of arrival; a set, so that an expired message can leave from the middle. */
  readonly #mailbox = new Set<Envelope>()
  #handlers: Handlers<T> | undefined
  #history: RestartHistory = NO_FAILURES
  /** Counts starts, so that reports of an older start are ignored. */
  #generation = 0
  #restartTimer: NodeJS.Timeout | undefined
  #phase: Exclude<ActorStatus, 'draining'> = 'starting'
  #draining = false
  readonly #whenIdle = new Set<() => void>()

  constructor(options: ActorOptions<T>) {
    this.name = options.name
    this.#options = options
    this.#concurrency = options.concurrency ?? 1
    void this.#start()
  }

  get status(): ActorStatus {
    return this.#draining && this.#phase !== 'stopped' ? 'draining' : this.#phase
  }

  get queued(): number {
    return this.#mailbox.size
  }

  tell<K extends Kind<T>>(kind: K, message: T[K]['message']): void {
    this.#accept({ kind, message, deadlineAt: Number.POSITIVE_INFINITY })
  }

  ask<K extends Kind<T>>(kind: K, message: T[K]['message'], deadlineMs: number): Promise<T[K]['reply']> {
    return new Promise((resolve, reject) => {
      const envelope: Envelope = { kind, message, deadlineAt: performance.now() + deadlineMs }
      const timer = setTimeout(() => {
        this.#mailbox.delete(envelope)
        reject(new ActorError('deadline', `${this.name}: no reply to ${kind} within ${deadlineMs} ms`))
        this.#checkIdle()
      }, deadlineMs)
      envelope.resolve = (reply) => {
        clearTimeout(timer)
        resolve(reply as T[K]['reply'])
      }
      envelope.reject = (error) => {
        clearTimeout(timer)
        reject(error)
      }
      try {
        this.#accept(envelope)
      } catch (error) {
        envelope.reject(error)
      }
    })
  }

  async drain(deadlineMs: number): Promise<number> {
    this.#draining = true
    if (this.#busy()) {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          clearTimeout(timer)
          this.#whenIdle.delete(done)
          resolve()
        }
        const timer = setTimeout(done, deadlineMs)
        this.#whenIdle.add(done)
      })
    }
    const left = this.#mailbox.size + this.running
    this.stop()
    return left
  }

  stop(): void {
    if (this.#phase === 'stopped') return
    this.#phase = 'stopped'
    this.#handlers = undefined
    this.#generation++
    clearTimeout(this.#restartTimer)
    for (const { reject } of this.#mailbox) reject?.(new ActorError('stopped', `${this.name} is stopped`))
    this.#mailbox.clear()
    this.#checkIdle()
  }

  #accept(envelope: Envelope): void {
    if (this.#draining || this.#phase === 'stopped') {
      throw new ActorError('stopped', `${this.name} is ${this.status}`)
    }
    if (this.#mailbox.size >= this.#options.mailboxLimit) {
      throw new ActorError('mailbox_full', `${this.name} has ${this.#mailbox.size} messages waiting`)
    }
    this.#mailbox.add(envelope)
    this.#pump()
  }

  #pump(): void {
    while (this.#handlers !== undefined && this.running < this.#concurrency) {
      const envelope = this.#mailbox.values().next().value
      if (envelope === undefined) return
      this.#mailbox.delete(envelope)
      void this.#handle(envelope, this.#handlers, this.#generation)
    }
  }

  async #handle(envelope: Envelope, handlers: Handlers<T>, generation: number): Promise<void> {
    this.running++
    try {
      // The kind may come from another thread, so an inherited member such as `toString` must not match.
      if (!Object.hasOwn(handlers, envelope.kind)) throw new TypeError(`${this.name} has no message ${envelope.kind}`)
      const handler = handlers[envelope.kind as Kind<T>] as AnyHandler
      const reply = await handler(envelope.message, { deadlineAt: envelope.deadlineAt })
      envelope.resolve?.(reply)
    } catch (error) {
      if (envelope.reject !== undefined) envelope.reject(error)
      else this.#fail(error, generation)
    } finally {
      this.running--
      this.#pump()
      this.#checkIdle()
    }
  }

  async #start(): Promise<void> {
    const generation = ++this.#generation
    this.#phase = 'starting'
    try {
      const fail = (error: unknown): void => this.#fail(error, generation)
      const handlers = await this.#options.start({ name: this.name, fail })
      if (generation !== this.#generation) return
      this.#handlers = handlers
      this.#phase = 'running'
      this.#pump()
    } catch (error) {
      this.#fail(error, generation)
    }
  }

  #fail(error: unknown, generation: number): void {
    if (generation !== this.#generation) return
    const { name } = this
    const { decision, history } = decideRestart(this.#options.restart, this.#history, performance.now())
    this.#history = history
    if (decision.action === 'escalate') {
      this.stop()
      this.#options.onFailure({ action: 'escalate', name, error })
      return
    }
    this.#generation++
    this.#handlers = undefined
    this.#phase = 'backing-off'
    this.#restartTimer = setTimeout(() => void this.#start(), decision.delayMs)
    this.#options.onFailure({ action: 'restart', name, error, delayMs: decision.delayMs })
  }

  #busy(): boolean {
    return this.#mailbox.size > 0 || this.running > 0
  }

  #checkIdle(): void {
    if (this.#busy()) return
    for (const done of this.#whenIdle) done()
  }
}

/**
 * Gathers what is to be told within a tick of the event loop: waking another thread costs more than most messages.
 *
 * @returns a function that takes an item; `deliver` gets all items of a tick at its end
 */
export function batchPerTick<T>(deliver: (items: readonly T[]) => void): (item: T) => void {
  let batch: T[] = []

  function end(): void {
    const items = batch
    batch = []
    deliver(items)
  }

  return (item) => {
    if (batch.push(item) === 1) setImmediate(end)
  }
}
