/** When a failed actor or thread is started again: exponential backoff, and giving up after too many. Pure: no clock. */

export interface RestartPolicy {
  /** Delay after the first failure of a window; doubles with each further one. */
  initialDelayMs: number
  maxDelayMs: number
  /** Failures within `windowMs` that are still answered by a restart; the next one escalates. */
  maxRestarts: number
  windowMs: number
}

/** Times of the failures that still count, oldest first. */
export type RestartHistory = readonly number[]
export const NO_FAILURES: RestartHistory = []

export type RestartDecision = { action: 'restart'; delayMs: number } | { action: 'escalate' }

/**
 * @param now the time of this failure, in milliseconds of any clock that does not go back.
 * @returns what to do, and the history for the next failure. It never holds more than `maxRestarts` + 1 times.
 */
export function decideRestart(
  policy: RestartPolicy,
  history: RestartHistory,
  now: number,
): { decision: RestartDecision; history: RestartHistory } {
  const recent = [...history.filter((time) => now - time < policy.windowMs), now]
  if (recent.length > policy.maxRestarts) {
    return { decision: { action: 'escalate' }, history: recent.slice(-(policy.maxRestarts + 1)) }
  }
  const delayMs = Math.min(policy.maxDelayMs, policy.initialDelayMs * 2 ** (recent.length - 1))
  return { decision: { action: 'restart', delayMs }, history: recent }
}
