/**
 * The single time limit of a validation attempt: every look-up, connection and read uses the rest of it. Beside a good
 * result, slow look-ups get less.
 */

import { performance } from 'node:perf_hooks'

export interface Deadline {
  /** Milliseconds left, never negative. */
  remainingMs(): number
  /** Milliseconds since the attempt began. */
  elapsedMs(): number
  /** A shorter limit for one part, which cannot exceed the whole. */
  atMost(ms: number): Deadline
}

/** Starts now. The clock is monotonic, so changes of the system time do not matter. */
export function startDeadline(timeoutMs: number): Deadline {
  const startedAt = performance.now()
  return {
    remainingMs: () => Math.max(0, startedAt + timeoutMs - performance.now()),
    elapsedMs: () => performance.now() - startedAt,
    atMost(ms) {
      return startDeadline(Math.min(ms, this.remainingMs()))
    },
  }
}

/** Waits for all results. `graceMs` after one `isGood`, it calls `giveUp`, which must end the others. */
export async function allWithGrace<R>(
  results: readonly Promise<R>[],
  isGood: (result: R) => boolean,
  graceMs: number,
  giveUp: () => void,
): Promise<R[]> {
  let timer: NodeJS.Timeout | undefined
  let open = results.length
  const watched = results.map(async (pending) => {
    const result = await pending
    if (--open > 0 && isGood(result)) timer ??= setTimeout(giveUp, graceMs)
    return result
  })
  const all = await Promise.all(watched)
  clearTimeout(timer)
  return all
}
