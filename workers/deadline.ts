/**
 * The single time limit of a validation attempt. Every look-up, connection and read uses the rest
 * of it.
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
