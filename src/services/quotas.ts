/** Daily quotas of accounts (`quotas.*`): orders created and certificates issued per UTC day. */

import { Problem } from '../shared/protocol/problem.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import type { UsageKind, UsageStore } from '../store/usage-store.ts'

/** Limit of each kind for an account and day; 0 is none. */
export type QuotaPolicy = Record<UsageKind, number>

export interface Quotas {
  /**
   * Runs `work` within the account's quota. A throw or `undefined` refunds the count; a failed
   * refund does not change the outcome.
   * @throws Problem rateLimited when the day's quota is used up
   */
  within<T>(kind: UsageKind, accountId: string, work: () => Promise<T>): Promise<T>
}

export interface QuotaEvents {
  exceeded(kind: UsageKind, accountId: string, limit: number): void
  /** The day then counts one too many. */
  refundFailed(kind: UsageKind, accountId: string, error: unknown): void
}

const DAY_MS = 86_400_000

export function createQuotas(store: UsageStore, policy: QuotaPolicy, events: QuotaEvents): Quotas {
  return {
    async within(kind, accountId, work) {
      const limit = policy[kind]
      if (limit === 0) return work()
      const day = await store.charge[kind]({ accountId, limit })
      if (day === undefined) {
        events.exceeded(kind, accountId, limit)
        throw refusal(kind, limit)
      }
      let isUsed = false
      try {
        const result = await work()
        isUsed = result !== undefined
        return result
      } finally {
        if (!isUsed)
          await store.refund(kind, accountId, day).catch((error) => events.refundFailed(kind, accountId, error))
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
