/** What every thread has: its parts, its log and metrics, and the actor that its supervisor reaches. */

import type { Logger } from 'pino'
import type { Config } from '../config/schema.ts'
import { createLogger } from '../ops/logging.ts'
import { createMetrics, type Metrics } from '../ops/metrics.ts'
import { type Actor, type ActorOptions, type MessageTable, spawn } from '../runtime/actor.ts'
import type { ThreadContext } from '../runtime/thread-entry.ts'

interface Part {
  name: string
  stop(deadlineMs: number): unknown
}

/** The parts of a thread: they start in order and stop in reverse. */
export class Parts {
  readonly #parts: Part[] = []

  /**
   * @param stop is called when the thread ends, or when a later part cannot start
   * @returns the part, which has started
   */
  add<T>(name: string, part: T, stop: (part: T, deadlineMs: number) => unknown): T {
    this.#parts.push({ name, stop: (deadlineMs) => stop(part, deadlineMs) })
    return part
  }

  /** A part that fails does not keep the others running. */
  async stop(onError: (part: string, error: unknown) => void, deadlineMs = 0): Promise<void> {
    const deadline = performance.now() + deadlineMs
    for (let part = this.#parts.pop(); part; part = this.#parts.pop()) {
      try {
        await part.stop(Math.max(0, deadline - performance.now()))
      } catch (error) {
        onError(part.name, error)
      }
    }
  }
}

export interface ThreadBasics {
  parts: Parts
  log: Logger
  metrics: Metrics
  /** Stops the parts; the log says which one fails. */
  drain(deadlineMs: number): Promise<void>
}

/** The log is flushed at the end, also after a crash. */
export function beginThread({
  name,
  data,
  atExit,
}: Pick<ThreadContext<{ config: Config }, never>, 'name' | 'data' | 'atExit'>): ThreadBasics {
  const metrics = createMetrics()
  const { log, flush } = createLogger(data.config.logging, name, { buffered: true, metrics })
  atExit(flush)
  const parts = new Parts()
  const drain = (deadlineMs: number) =>
    parts.stop((part, error) => log.error({ part, err: error }, 'a part did not stop cleanly'), deadlineMs)
  return { parts, log, metrics, drain }
}

const ACTOR_RESTART = { initialDelayMs: 10, maxDelayMs: 1_000, maxRestarts: 5, windowMs: 60_000 }

/** The actor of a thread. An error that is no handler's ends it only after some restarts. */
export function threadActor<M extends MessageTable>(
  log: Logger,
  options: Pick<ActorOptions<M>, 'name' | 'mailboxLimit' | 'concurrency' | 'start'>,
): Actor<M> {
  const onFailure: ActorOptions<M>['onFailure'] = ({ error }) =>
    log.error({ err: error }, 'the actor of a thread failed')
  return spawn<M>({ ...options, restart: ACTOR_RESTART, onFailure })
}
