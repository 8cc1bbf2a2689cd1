/**
 * The one time bound of a validation attempt; every look-up, connection and
 * read takes what is left of it.
 */

import { performance } from 'node:perf_hooks'

export interface Deadline {
  /** Milliseconds left, never negative. */
  remainingMs(): number
  /** Milliseconds since the attempt began. */
  elapsedMs(): number
  /** A bound of its own for one part of the attempt, which cannot outlive the whole. */
  atMost(ms: number): Deadline
}

/** Starts now. Monotonic clock: a step of the system time neither stretches nor cuts an attempt. */
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
