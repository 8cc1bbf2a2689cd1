/**
 * The inside of a supervised thread, from worker data to `ready` and to its end.
 *
 * Node aborts the process when a thread ends with unknown native handles open, such as the HTTP server's. So `atExit`
 * registers what must be closed. It runs after an orderly stop, after an uncaught error (reported to the supervisor
 * first), and on `process.exit`. Only running out of heap skips it.
 */

import { readlinkSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { within } from '../shared/lib/time-limit.ts'
import { type ActorRef, type MessageTable, spawn } from './actor.ts'
import { toErrorData } from './errors.ts'
import {
  CONTROL_LIMIT,
  connect,
  expose,
  type HandedPort,
  MovableRef,
  type ThreadStart,
  type ToSupervisor,
  type ToThread,
} from './port.ts'

type NoMessages = Record<never, never>

export interface ThreadContext<D, S extends MessageTable, P extends MessageTable = NoMessages> {
  name: string
  data: D
  /** The supervisor's actor for its threads. */
  supervisor: ActorRef<S>
  /** The actor of the thread in `ThreadOptions.peer`, without a way through the supervisor. */
  peer: ActorRef<P>
  /** Registers a synchronous release. Releases run once, the last registered first. */
  atExit(release: () => void): void
  /**
   * Asks for a replacement; the successor is ready before this thread is told to stop. Repeated
   * calls change nothing until the replacement has failed.
   */
  requestRecycle(reason: string): void
}

interface ThreadLife<T extends MessageTable> {
  /** The actor that the supervisor's reference reaches. */
  actor?: ActorRef<T>
  /** Finishes running work and refuses new work. The thread ends at the deadline in any case. */
  drain(deadlineMs: number): Promise<unknown>
}

/** Exceeds any start of a successor. Afterwards the thread may ask again. */
const RECYCLE_DEADLINE_MS = 300_000

/** Called once, at the top of a thread's entry file. An error in `setup` counts as a crash. */
export function runThread<
  D,
  T extends MessageTable = NoMessages,
  S extends MessageTable = NoMessages,
  P extends MessageTable = NoMessages,
>(setup: (context: ThreadContext<D, S, P>) => Promise<ThreadLife<T>>): void {
  const { name, data, control, app, mailboxLimit } = workerData as ThreadStart
  const supervisor = connect<ToSupervisor>(control, 'supervisor', CONTROL_LIMIT)
  const releases = new Releases()
  let life: ThreadLife<T> | undefined
  let ending = false

  const crash = (error: unknown): void => {
    if (ending) return
    ending = true
    try {
      supervisor.tell('crashed', toErrorData(error))
    } finally {
      releases.run()
      process.exit(1)
    }
  }

  const stop = async (deadlineMs: number): Promise<void> => {
    if (life !== undefined) await within(life.drain(deadlineMs), deadlineMs, undefined)
    const failure = releases.run()
    if (failure !== undefined) return crash(failure)
    ending = true
    process.exit(0)
  }

  process.on('uncaughtException', crash)
  process.on('unhandledRejection', crash)
  process.on('exit', () => releases.run())

  const controlled = spawn<ToThread>({
    name: `${name} control`,
    mailboxLimit: CONTROL_LIMIT,
    concurrency: CONTROL_LIMIT,
    restart: { initialDelayMs: 0, maxDelayMs: 0, maxRestarts: 0, windowMs: 1 },
    onFailure: ({ error }) => crash(error),
    start: () => ({
      stop: async ({ deadlineMs }) => void (await stop(deadlineMs)),
      ping: () => undefined,
    }),
  })
  expose(control, controlled, (_kind, error) => crash(error))

  const peer = new MovableRef<P>('peer', mailboxLimit)
  parentPort?.on('message', ({ end, port }: HandedPort) => {
    if (end === 'asks') peer.moveTo(port)
    // A peer's message may be lost, as when this thread ends.
    else if (life?.actor) expose(port, life.actor, () => undefined)
  })

  const context: ThreadContext<D, S, P> = {
    name,
    data: data as D,
    supervisor: connect<S>(app, 'supervisor', mailboxLimit),
    peer,
    atExit: (release) => releases.add(release),
    requestRecycle: recycling(supervisor),
  }
  setup(context).then((value) => {
    life = value
    if (value.actor !== undefined) expose(app, value.actor, (_kind, error) => crash(error))
    supervisor.tell('ready', undefined)
  }, crash)
}

/** Resources that a thread must close before it ends. */
class Releases {
  readonly #releases: (() => void)[] = []

  add(release: () => void): void {
    this.#releases.push(release)
  }

  /** Runs each release once, the last one first. @returns the first failure */
  run(): unknown {
    let failure: unknown
    for (let release = this.#releases.pop(); release !== undefined; release = this.#releases.pop()) {
      try {
        release()
      } catch (error) {
        failure ??= error
      }
    }
    return failure
  }
}

function recycling(supervisor: ActorRef<ToSupervisor>): (reason: string) => void {
  let isUnderWay = false
  // The supervisor reports a failed replacement itself; here it only allows a new request.
  const over = () => {
    isUnderWay = false
  }
  return (reason) => {
    if (isUnderWay) return
    isUnderWay = true
    supervisor.ask('recycle', { reason }, RECYCLE_DEADLINE_MS).then(over, over)
  }
}

/** Threads that give way to the others (docs/decisions/administrators-last.md). */
const LOWEST = os.constants.priority.PRIORITY_LOW

/**
 * Lowers the calling thread alone, which only Linux can; a thread that it starts later inherits it.
 *
 * @param steps of niceness, below the priority that the thread has
 * @throws Error where there is no /proc
 */
export function lowerPriority(steps: number): void {
  if (process.platform !== 'linux') return
  const thread = Number(path.basename(readlinkSync('/proc/thread-self')))
  os.setPriority(thread, Math.min(LOWEST, os.getPriority(thread) + steps))
}
