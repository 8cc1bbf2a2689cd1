/** Decides when a failed actor or thread restarts: exponential backoff with a limit. Pure: no clock. */

export interface RestartPolicy {
  /** Delay after the first failure of a window; it doubles with each further failure. */
  initialDelayMs: number
  maxDelayMs: number
  /** Restarts allowed within `windowMs`; the next failure escalates. */
  maxRestarts: number
  windowMs: number
}

/** Times of the failures inside the window, oldest first. */
export type RestartHistory = readonly number[]
export const NO_FAILURES: RestartHistory = []

type RestartDecision = { action: 'restart'; delayMs: number } | { action: 'escalate' }

/**
 * @param now the time of this failure, in milliseconds of any monotonic clock
 * @returns the decision, and the history for the next failure with at most `maxRestarts` + 1 times
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
