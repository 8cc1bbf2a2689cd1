/**
 * The inside of a supervised thread: from worker data to `ready`, and out again on every path.
 *
 * Node aborts the whole process when a thread ends while native handles it does not know (the HTTP server's) are still
 * open. So whatever must be closed is registered with `atExit`, and runs before the thread ends: after an orderly stop,
 * after an uncaught error or rejection (which are reported to the supervisor first), and on a direct `process.exit`.
 * Running out of heap is the one death that gives no chance for it.
 */
import { workerData } from 'node:worker_threads'
import { within } from '../shared/lib/time-limit.ts'
import { type ActorRef, type MessageTable, spawn } from './actor.ts'
import { toErrorData } from './errors.ts'
import { connect, expose } from './port.ts'
import { CONTROL_LIMIT, type ThreadStart, type ToSupervisor, type ToThread } from './thread-control.ts'

export interface ThreadContext<D, S extends MessageTable> {
  name: string
  data: D
  /** The actor that the supervisor offers to its threads. */
  supervisor: ActorRef<S>
  /** `release` must be synchronous. Last registered, first run; each once. */
  atExit(release: () => void): void
  /**
   * Asks to be replaced: the successor is ready before this thread is told to stop. Asking again meanwhile changes
   * nothing; after a successor that failed it may be asked for anew.
   */
  requestRecycle(reason: string): void
}

export interface ThreadLife<T extends MessageTable> {
  /** What the supervisor's reference to this thread reaches. */
  actor?: ActorRef<T>
  /** Orderly stop: finish what is in flight, refuse the rest. Not waited for beyond the deadline. */
  drain(deadlineMs: number): Promise<unknown>
}

/** Longer than any start of a successor takes; after it the request is forgotten and may be made again. */
const RECYCLE_DEADLINE_MS = 300_000

/** Called once, at the top of a thread's entry file. A `setup` that throws is a crash. */
export function runThread<
  D,
  T extends MessageTable = Record<never, never>,
  S extends MessageTable = Record<never, never>,
>(setup: (context: ThreadContext<D, S>) => Promise<ThreadLife<T>>): void {
  const { name, data, control, app, mailboxLimit } = workerData as ThreadStart
  const supervisor = connect<ToSupervisor>(control, 'supervisor', CONTROL_LIMIT)
  const releases: (() => void)[] = []
  let life: ThreadLife<T> | undefined
  let ending = false
  let recycling = false

  const releaseAll = (): unknown => {
    let failure: unknown
    for (let release = releases.pop(); release !== undefined; release = releases.pop()) {
      try {
        release()
      } catch (error) {
        failure ??= error
      }
    }
    return failure
  }

  const crash = (error: unknown): void => {
    if (ending) return
    ending = true
    try {
      supervisor.tell('crashed', toErrorData(error))
    } finally {
      releaseAll()
      process.exit(1)
    }
  }

  const stop = async (deadlineMs: number): Promise<void> => {
    if (life !== undefined) await within(life.drain(deadlineMs), deadlineMs, undefined)
    const failure = releaseAll()
    if (failure !== undefined) return crash(failure)
    ending = true
    process.exit(0)
  }

  process.on('uncaughtException', crash)
  process.on('unhandledRejection', crash)
  process.on('exit', releaseAll)

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

  const context: ThreadContext<D, S> = {
    name,
    data: data as D,
    supervisor: connect<S>(app, 'supervisor', mailboxLimit),
    atExit: (release) => releases.push(release),
    requestRecycle: (reason) => {
      if (recycling) return
      recycling = true
      // The supervisor reports a failed replacement itself; here it only means that one may be asked for again.
      const over = (): void => {
        recycling = false
      }
      supervisor.ask('recycle', { reason }, RECYCLE_DEADLINE_MS).then(over, over)
    },
  }
  setup(context).then((value) => {
    life = value
    if (value.actor !== undefined) expose(app, value.actor, (_kind, error) => crash(error))
    supervisor.tell('ready', undefined)
  }, crash)
}
