/**
 * Failures of background tasks in the log: one line when a task begins to fail, one now and then while it goes on, one when
 * it works again. What is between them is there at DEBUG.
 */

import type { Logger } from 'pino'

export interface FailureLog {
  failed(task: string, error: unknown): void
  /** After a failure, and only then. */
  recovered(task: string): void
}

/** A task that fails for long may do so for another reason by now. */
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

/** These have their stack in the log; of the others, the message says it all. */
function isFaultOfProgram(error: unknown): boolean {
  const errors: unknown[] = error instanceof AggregateError ? error.errors : [error]
  return errors.some((one) => [TypeError, RangeError, ReferenceError, SyntaxError].some((kind) => one instanceof kind))
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const below: unknown = error instanceof AggregateError ? error.errors[0] : error.cause
  // A host with several addresses, none of which answers, is an error without a message.
  const messages = [error.message, below instanceof Error ? below.message : '']
  return messages.filter((message) => message !== '').join(': ') || error.name
}
