/** Daily quotas of accounts (`quotas.*`): orders made and certificates issued on a day of UTC. */

import { Problem } from '../protocol/problem.ts'
import { renderTimestamp } from '../protocol/timestamp.ts'
import type { UsageKind, UsageStore } from '../store/usage-store.ts'

/** Largest number of each kind for an account and day; 0 is no limit. */
export type QuotaPolicy = Record<UsageKind, number>

export interface Quotas {
  /**
   * Runs `work` within the account's quota. What was counted is taken back when `work` throws or gives undefined.
   * @throws Problem rateLimited when the day is full
   */
  within<T>(kind: UsageKind, accountId: string, work: () => Promise<T>): Promise<T>
}

export interface QuotaEvents {
  exceeded(kind: UsageKind, accountId: string): void
}

const DAY_MS = 86_400_000

export function createQuotas(store: UsageStore, policy: QuotaPolicy, events: QuotaEvents): Quotas {
  return {
    async within(kind, accountId, work) {
      const limit = policy[kind]
      if (limit === 0) return work()
      if (!(await store.charge[kind]({ accountId, limit }))) {
        events.exceeded(kind, accountId)
        throw refusal(kind, limit)
      }
      let isUsed = false
      try {
        const result = await work()
        isUsed = result !== undefined
        return result
      } finally {
        if (!isUsed) await store.refund(kind, accountId)
      }
    },
  }
}

function refusal(kind: UsageKind, limit: number): Problem {
  const midnight = (Math.floor(Date.now() / DAY_MS) + 1) * DAY_MS
  return new Problem(
    'rateLimited',
    `quota: ${limit} ${kind} a day for an account; come back after ${renderTimestamp(new Date(midnight))}`,
    { retryAfterSeconds: Math.ceil((midnight - Date.now()) / 1000) },
  )
}
