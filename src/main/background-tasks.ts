/**
 * Background tasks: rounds that one instance at a time runs, elected by an advisory lock. A round
 * may safely run twice, because compare-and-swap guards its writes.
 */

import type { Logger } from 'pino'
import type { TaskRuns } from '../domain/alarms.ts'
import { type Loop, startLoop } from '../runtime/loop.ts'
import { messageOf } from '../shared/lib/errors.ts'
import type { LeaderRole } from '../store/instance-presence.ts'

export interface BackgroundTask {
  /** The label in metrics and log lines. */
  name: string
  role: LeaderRole
  intervalMs: number | (() => number)
  /** Runs one round. @returns how many items it processed; undefined while settings switch the task off */
  round(): Promise<number | undefined>
}

export interface BackgroundEvents {
  began(task: string): void
  ended(task: string, taken: number): void
  failed(task: string, error: unknown): void
  /** Called when a round succeeds after a failed one. */
  recovered(task: string): void
  /** A round of this instance has ended. @param error why it failed */
  ran(task: string, nextInMs: number, error?: unknown): void
}

export interface BackgroundWorkers {
  /** Whether the last round of every task of this role succeeded. */
  isHealthy(role: LeaderRole): boolean
  /** Settings have changed: every task runs a round and restarts its interval. */
  wake(): void
  /** Resolves when the running rounds have ended. */
  stop(): Promise<void>
}

export function startBackgroundTasks(
  tasks: readonly BackgroundTask[],
  lead: (role: LeaderRole, work: () => Promise<void>) => Promise<boolean>,
  events: BackgroundEvents,
): BackgroundWorkers {
  const loops = tasks.map(({ name, role, intervalMs, round }): { role: LeaderRole; loop: Loop } => ({
    role,
    loop: startLoop({
      name,
      intervalMs,
      onError: events.failed,
      onRecovered: events.recovered,
      async round() {
        await lead(role, async () => {
          const nextInMs = typeof intervalMs === 'number' ? intervalMs : intervalMs()
          events.began(name)
          try {
            const taken = await round()
            if (taken === undefined) return
            events.ended(name, taken)
            events.ran(name, nextInMs)
          } catch (error) {
            events.ran(name, nextInMs, error)
            throw error
          }
        })
      },
    }),
  }))
  return {
    isHealthy: (role) => loops.every((entry) => entry.role !== role || entry.loop.healthy),
    wake() {
      for (const { loop } of loops) loop.wake()
    },
    async stop() {
      await Promise.all(loops.map(({ loop }) => loop.stop()))
    },
  }
}

interface FailureLog {
  failed(task: string, error: unknown): void
  /** Called only after a failure. */
  recovered(task: string): void
}

/** The reason of a long failure may change, so reminders repeat it. */
const REMIND_MS = 600_000

export function createFailureLog(log: Logger, now: () => number = () => performance.now()): FailureLog {
  const episodes = new Map<string, { failures: number; saidAt: number }>()
  return {
    failed(task, error) {
      const episode = episodes.get(task) ?? { failures: 0, saidAt: Number.NEGATIVE_INFINITY }
      episodes.set(task, episode)
      episode.failures++
      const { failures } = episode
      if (now() - episode.saidAt < REMIND_MS) {
        log.debug({ task, failures, err: error }, 'background task failed')
        return
      }
      episode.saidAt = now()
      const what = isFaultOfProgram(error) ? { err: error } : { reason: reasonOf(error) }
      log.error({ task, failures, ...what }, 'background task failed; it is tried again')
    },
    recovered(task) {
      log.warn({ task, failures: episodes.get(task)?.failures }, 'background task works again')
      episodes.delete(task)
    },
  }
}

/** Program faults are logged with their stack; for other errors the message is enough. */
function isFaultOfProgram(error: unknown): boolean {
  const errors: unknown[] = error instanceof AggregateError ? error.errors : [error]
  return errors.some((one) => [TypeError, RangeError, ReferenceError, SyntaxError].some((kind) => one instanceof kind))
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const below: unknown = error instanceof AggregateError ? error.errors[0] : error.cause
  // A host with several addresses, all unreachable, gives an AggregateError without a message.
  const messages = [error.message, below instanceof Error ? below.message : '']
  return messages.filter((message) => message !== '').join(': ') || error.name
}

/** One statement every few seconds records when tasks ran, however often they run. */
const INTERVAL_MS = 5_000
/** An error may quote what a stranger sent. */
const MAX_ERROR = 300

interface RunRecorderOptions {
  write(runs: readonly TaskRuns[]): Promise<void>
  onError(error: unknown): void
}

export class RunRecorder {
  readonly #options: RunRecorderOptions
  readonly #timer: NodeJS.Timeout
  #runs = new Map<string, TaskRuns>()
  #last: Promise<void> = Promise.resolve()

  constructor(options: RunRecorderOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#flush(), INTERVAL_MS).unref()
  }

  /** @param error of a run that failed */
  ran(task: string, nextInMs: number, error?: unknown): void {
    const now = Date.now()
    const failed = error !== undefined
    const former = this.#runs.get(task)
    this.#runs.set(task, {
      task,
      lastRunAt: new Date(now),
      nextRunAt: new Date(now + nextInMs),
      errors: (former?.errors ?? 0) + (failed ? 1 : 0),
      lastError: failed ? textOf(error) : former?.lastError,
    })
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#flush()
    await this.#last
  }

  #flush(): void {
    const runs = [...this.#runs.values()]
    if (runs.length === 0) return
    this.#runs = new Map()
    this.#last = this.#options.write(runs).catch(this.#options.onError)
  }
}

const textOf = (error: unknown) => messageOf(error).slice(0, MAX_ERROR)
