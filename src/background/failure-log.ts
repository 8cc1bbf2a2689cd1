/**
 * Logs failures of background tasks: the first one, a reminder every ten minutes, and the recovery.
 * Failures between them are logged at DEBUG.
 */

import type { Logger } from 'pino'

export interface FailureLog {
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
