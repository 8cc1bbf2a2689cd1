/** How often and how soon a failed validation is tried again (RFC 8555 §8.2; `challenges.*`). */

export interface ValidationPolicy {
  /** Attempts after the first, by type; an absent type has none. */
  maxRetries: Readonly<Record<string, number>>
  /** Total time of attempts after which no other follows, by type; an absent type has no bound. */
  maxSpentMs?: Readonly<Record<string, number>>
  backoffBaseMs: number
  backoffMaxMs: number
}

/** @param spentMs total time of the failed tries, without the waits between them */
export function isTriedAgain(type: string, failedTries: number, spentMs: number, policy: ValidationPolicy): boolean {
  const { maxRetries, maxSpentMs = {} } = policy
  return failedTries <= (maxRetries[type] ?? 0) && spentMs < (maxSpentMs[type] ?? Number.POSITIVE_INFINITY)
}

/** @param failedTries at least 1; the delay doubles with each. */
export function retryDelayMs(failedTries: number, { backoffBaseMs, backoffMaxMs }: ValidationPolicy): number {
  return Math.min(backoffBaseMs * 2 ** (failedTries - 1), backoffMaxMs)
}
