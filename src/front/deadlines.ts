/** Answers requests that take longer than `server.timeout`. What they began goes on; nobody waits for it any more. */

import { Problem } from '../shared/protocol/problem.ts'

export interface Deadlines {
  /** @returns what `work` comes to. @throws Problem 503 when that takes too long, counted from `startedAt` (`performance.now()`) */
  within<T>(work: Promise<T>, startedAt: number): Promise<T>
}

/** A timer for each request would cost more than the rest of this. */
const LOOK_MS = 250
/** A poll that is answered after a second by itself is not too late where the limit is a second. */
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
