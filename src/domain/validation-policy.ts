/** How often and how soon a failed validation is tried again (RFC 8555 §8.2; `challenges.*`). */

import type { ChallengeType } from '../protocol/challenge.ts'

export interface ValidationPolicy {
  /** Attempts after the first, by type. */
  maxRetries: Record<ChallengeType, number>
  backoffBaseMs: number
  backoffMaxMs: number
}

/** @param failedTries at least 1; the delay doubles with each. */
export function retryDelayMs(failedTries: number, { backoffBaseMs, backoffMaxMs }: ValidationPolicy): number {
  return Math.min(backoffBaseMs * 2 ** (failedTries - 1), backoffMaxMs)
}
