/** How often and how soon a failed validation is tried again (RFC 8555 §8.2; `challenges.*`). */

export interface ValidationPolicy {
  /** Attempts after the first, by type; none for a type that is not there. */
  maxRetries: Readonly<Record<string, number>>
  /** Attempts that took so long together are not followed by another; no bound for a type that is not there. */
  maxSpentMs?: Readonly<Record<string, number>>
  backoffBaseMs: number
  backoffMaxMs: number
}

/** @param spentMs what the failed tries took together, without the waits between them */
export function isTriedAgain(type: string, failedTries: number, spentMs: number, policy: ValidationPolicy): boolean {
  const { maxRetries, maxSpentMs = {} } = policy
  return failedTries <= (maxRetries[type] ?? 0) && spentMs < (maxSpentMs[type] ?? Number.POSITIVE_INFINITY)
}

/** @param failedTries at least 1; the delay doubles with each. */
export function retryDelayMs(failedTries: number, { backoffBaseMs, backoffMaxMs }: ValidationPolicy): number {
  return Math.min(backoffBaseMs * 2 ** (failedTries - 1), backoffMaxMs)
}
