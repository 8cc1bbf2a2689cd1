/**
 * Actor references across threads, over a MessagePort.
 *
 * Every ask gets a reply, and tells are acknowledged by count. So the sender knows how many messages are outstanding
 * and refuses more than its limit. Deadlines travel as remaining time, because clocks of two threads may differ; the
 * sender's timer decides. Both directions may share one port.
 */
import type { MessagePort } from 'node:worker_threads'
import { startTimeLimit } from '../shared/lib/time-limit.ts'
import type { ActorRef, Kind, MessageTable } from './actor.ts'
import { ActorError, type ErrorData, fromErrorData, toErrorData } from './errors.ts'

interface Request {
  id: number
  kind: string
  message: unknown
  /** Absent for a `tell`. */
  deadlineMs?: number
}
type Reply = { id: number; value: unknown } | { id: number; error: ErrorData }
/** The number of tells taken since the last acknowledgement. */
interface Taken {
  taken: number
}

/**
 * Acknowledges tells together: waking a thread for an empty reply costs more than the message. A
 * sender's limit covers seconds of messages, so this delay is harmless.
 */
const ACKNOWLEDGE_MS = 50
const ACKNOWLEDGE_AFTER = 64

/** Makes `actor` reachable from the other end of `port`. Calls `onRefused` for each `tell` the actor refuses. */
export function expose<T extends MessageTable>(
  port: MessagePort,
  actor: ActorRef<T>,
  onRefused: (kind: string, error: unknown) => void,
): void {
  let taken = 0
  let timer: NodeJS.Timeout | undefined

  function acknowledge(): void {
    clearTimeout(timer)
    timer = undefined
    port.postMessage({ taken } satisfies Taken)
    taken = 0
  }

  port.on('message', (request: Request | Reply | Taken) => {
    if (!('kind' in request)) return
    const { id, kind, message, deadlineMs } = request
    if (deadlineMs !== undefined) {
      actor.ask(kind as Kind<T>, message, deadlineMs).then(
        (value) => answer(port, { id, value }),
        (error) => answer(port, { id, error: toErrorData(error) }),
      )
      return
    }
    try {
      actor.tell(kind as Kind<T>, message)
    } catch (error) {
      onRefused(kind, error)
    }
    if (++taken === ACKNOWLEDGE_AFTER) acknowledge()
    else timer ??= setTimeout(acknowledge, ACKNOWLEDGE_MS).unref()
  })
}

function answer(port: MessagePort, reply: Reply): void {
  try {
    port.postMessage(reply)
  } catch (error) {
    // The value cannot be cloned. This is the handler's fault, and the sender must learn of it.
    port.postMessage({ id: reply.id, error: toErrorData(error) } satisfies Reply)
  }
}

export interface RemoteRef<T extends MessageTable> extends ActorRef<T> {
  /** Messages sent and not yet answered or acknowledged. */
  readonly outstanding: number
  /** Rejects open asks and later messages with `stopped`. The port itself stays open. */
  detach(): void
}

/** @param limit outstanding messages; one more fails with `mailbox_full` */
export function connect<T extends MessageTable>(port: MessagePort, name: string, limit: number): RemoteRef<T> {
  return new PortRef<T>(port, name, limit)
}

/** Reaches an actor whose thread may be replaced: by the last port, and with `stopped` before the first. */
export class MovableRef<T extends MessageTable> implements ActorRef<T> {
  readonly name: string
  readonly #limit: number
  #current: RemoteRef<T> | undefined

  constructor(name: string, limit: number) {
    this.name = name
    this.#limit = limit
  }

  moveTo(port: MessagePort): void {
    this.#current = connect<T>(port, this.name, this.#limit)
  }

  tell<K extends Kind<T>>(kind: K, message: T[K]['message']): void {
    this.#require().tell(kind, message)
  }

  async ask<K extends Kind<T>>(kind: K, message: T[K]['message'], deadlineMs: number): Promise<T[K]['reply']> {
    return this.#require().ask(kind, message, deadlineMs)
  }

  #require(): RemoteRef<T> {
    if (!this.#current) throw new ActorError('stopped', `${this.name} is not there yet`)
    return this.#current
  }
}

interface Waiter {
  resolve(value: unknown): void
  reject(error: unknown): void
}

class PortRef<T extends MessageTable> implements RemoteRef<T> {
  readonly name: string
  readonly #port: MessagePort
  readonly #limit: number
  /** Undefined for an ask past its deadline: the message is outstanding, but its reply is dropped. */
  readonly #open = new Map<number, Waiter | undefined>()
  /** Tells not yet acknowledged. */
  #told = 0
  #lastId = 0
  #detached = false

  constructor(port: MessagePort, name: string, limit: number) {
    this.name = name
    this.#port = port
    this.#limit = limit
    port.on('message', (reply: Request | Reply | Taken) => {
      if ('taken' in reply) this.#told -= reply.taken
      else if (!('kind' in reply)) this.#settle(reply)
    })
    port.on('close', () => this.detach())
  }

  get outstanding(): number {
    return this.#open.size + this.#told
  }

  tell<K extends Kind<T>>(kind: K, message: T[K]['message']): void {
    this.#send({ id: ++this.#lastId, kind, message })
    this.#told++
  }

  ask<K extends Kind<T>>(kind: K, message: T[K]['message'], deadlineMs: number): Promise<T[K]['reply']> {
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId
      const cancel = startTimeLimit(deadlineMs, () => {
        this.#open.set(id, undefined)
        reject(new ActorError('deadline', `${this.name}: no reply to ${kind} within ${deadlineMs} ms`))
      })
      const waiter: Waiter = {
        resolve(value) {
          cancel()
          resolve(value as T[K]['reply'])
        },
        reject(error) {
          cancel()
          reject(error)
        },
      }
      try {
        this.#send({ id, kind, message, deadlineMs })
        this.#open.set(id, waiter)
      } catch (error) {
        waiter.reject(error)
      }
    })
  }

  detach(): void {
    if (this.#detached) return
    this.#detached = true
    for (const waiter of this.#open.values()) waiter?.reject(new ActorError('stopped', `${this.name} is gone`))
    this.#open.clear()
  }

  #send(request: Request): void {
    if (this.#detached) throw new ActorError('stopped', `${this.name} is gone`)
    const { outstanding } = this
    if (outstanding >= this.#limit) {
      throw new ActorError('mailbox_full', `${this.name} has ${outstanding} messages on their way`)
    }
    this.#port.postMessage(request)
  }

  #settle(reply: Reply): void {
    const waiter = this.#open.get(reply.id)
    this.#open.delete(reply.id)
    if ('error' in reply) waiter?.reject(fromErrorData(reply.error))
    else waiter?.resolve(reply.value)
  }
}

/** Control messages to a supervised thread. */
export type ToThread = {
  /** Finish running work within the deadline, release everything, and end the thread. */
  stop: { message: { deadlineMs: number }; reply: undefined }
  /** Answered while the thread's event loop runs. */
  ping: { message: undefined; reply: undefined }
}

export type ToSupervisor = {
  ready: { message: undefined; reply: undefined }
  /** The thread is about to end because of this error. */
  crashed: { message: ErrorData; reply: undefined }
  /** The thread asks for its replacement. Answered when that has succeeded or failed. */
  recycle: { message: { reason: string }; reply: undefined }
}

/** A port of a channel between two threads; the supervisor makes it and hands each thread its end. */
export interface HandedPort {
  /** Whether the thread answers at it or asks through it. */
  end: 'answers' | 'asks'
  port: MessagePort
}

/** The worker data of a supervised thread. */
export interface ThreadStart {
  name: string
  data: unknown
  control: MessagePort
  app: MessagePort
  mailboxLimit: number
}

/** A thread sends only a few control messages. A larger backlog means that the other side is stuck. */
export const CONTROL_LIMIT = 16
