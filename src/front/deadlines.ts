/**
 * Answers requests that exceed `server.timeout`. Their work continues, but its result is dropped.
 */

import { Problem } from '../shared/protocol/problem.ts'

export interface Deadlines {
  /**
   * @returns the result of `work`
   * @throws Problem 503 when `work` takes too long, counted from `startedAt` (`performance.now()`)
   */
  within<T>(work: Promise<T>, startedAt: number): Promise<T>
}

/** One shared timer: a timer for each request costs more than all other work here. */
const LOOK_MS = 250
/** A poll waits up to a second on purpose, so it must pass a limit of one second. */
const GRACE_MS = 500
const RETRY_AFTER_SECONDS = 5

export function createDeadlines(timeoutSeconds: number): Deadlines {
  const limitMs = timeoutSeconds * 1000 + GRACE_MS
  const waiting = new Set<{ startedAt: number; giveUp(error: Problem): void }>()

  function look(): void {
    const before = performance.now() - limitMs
    for (const entry of waiting) {
      if (entry.startedAt > before) continue
      waiting.delete(entry)
      const detail = `the request took longer than ${timeoutSeconds} seconds; try again`
      entry.giveUp(new Problem('serverInternal', detail, { status: 503, retryAfterSeconds: RETRY_AFTER_SECONDS }))
    }
  }
  setInterval(look, LOOK_MS).unref()

  return {
    within: (work, startedAt) =>
      new Promise((resolve, reject) => {
        const entry = { startedAt, giveUp: reject }
        waiting.add(entry)
        work.then(
          (result) => {
            waiting.delete(entry)
            resolve(result)
          },
          (error) => {
            waiting.delete(entry)
            reject(error)
          },
        )
      }),
  }
}
