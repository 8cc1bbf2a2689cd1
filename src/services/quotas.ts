/** Daily quotas of accounts (`quotas.*`): orders created and certificates issued per UTC day. */

import type { Identifier } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import type { UsageKind, UsageStore } from '../store/usage-store.ts'

/** Limit of each kind for an account and day; 0 is none. */
export type QuotaPolicy = Record<UsageKind, number>

export interface Quotas {
  /**
   * Runs `work` within the account's quota. A throw, or a result that used none, refunds the count;
   * a failed refund does not change the outcome.
   * @param isUsed by default any result but `undefined`
   * @throws Problem rateLimited when the day's quota is used up
   */
  within<T>(kind: UsageKind, asked: QuotaRequest, work: () => Promise<T>, isUsed?: (result: T) => boolean): Promise<T>
}

export interface QuotaRequest {
  accountId: string
  /** What the order or authorization was to be for. */
  identifiers: readonly Identifier[]
}

export interface QuotaEvents {
  exceeded(kind: UsageKind, asked: QuotaRequest, limit: number): void
  /** The day then counts one too many. */
  refundFailed(kind: UsageKind, accountId: string, error: unknown): void
}

const DAY_MS = 86_400_000

export function createQuotas(store: UsageStore, policy: QuotaPolicy, events: QuotaEvents): Quotas {
  return {
    async within(kind, asked, work, isUsed = (result) => result !== undefined) {
      const { accountId } = asked
      const limit = policy[kind]
      if (limit === 0) return work()
      const day = await store.charge[kind]({ accountId, limit })
      if (day === undefined) {
        events.exceeded(kind, asked, limit)
        throw refusal(kind, limit)
      }
      let isRefunded = true
      try {
        const result = await work()
        isRefunded = !isUsed(result)
        return result
      } finally {
        if (isRefunded)
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
