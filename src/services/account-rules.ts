/**
 * Operator rules for single accounts: the identifiers they may order, their CSR profile, and daily quotas.
 *
 * Rows are read for each request; only compiled profiles are cached, by their text.
 */

import { certifiedNames } from '../domain/csr-check.ts'
import {
  asksForHistory,
  type CsrProfile,
  csrProfileProblem,
  csrProfileViolations,
  parseCsrProfile,
} from '../domain/csr-profile.ts'
import type { Order } from '../domain/records.ts'
import { LruMap } from '../shared/lib/caching.ts'
import { hashSpki } from '../shared/pki/algorithms.ts'
import type { Csr } from '../shared/pki/csr.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import type { AllowlistStore, CsrProfileStore, UsageKind, UsageStore } from '../store/account-rules-store.ts'
import type { HistoryDemands } from '../store/issuance-guards.ts'
import type { RulesSeen } from '../store/issuance-store.ts'

export interface AccountRulesPolicy {
  /** `security.identifier_policy.enforce_account_allowlist` */
  enforceAllowlist: boolean
  /** `security.require_csr_profile` */
  requireCsrProfile: boolean
}

export interface AccountRules {
  /** Undefined when allowlists are not enforced. */
  allowlistOf: AllowlistStore['find'] | undefined
  /**
   * Costs a look-up for an account with a profile, and another if the profile needs history.
   * @returns the profile, and what must hold of the history when the order begins
   * @throws Problem badCSR
   */
  checkCsrProfile(csr: Csr, order: Order, now: Date): Promise<Pick<RulesSeen, 'csrProfile' | 'history'>>
}

const DAY_MS = 86_400_000
const COMPILED_PROFILES = 256

function historyDemands(csr: Csr, profile: CsrProfile, now: Date): HistoryDemands | undefined {
  if (!asksForHistory(profile)) return undefined
  return {
    spkiSha256: hashSpki(csr.spki),
    names: certifiedNames(csr).map(({ value }) => value),
    notDueBefore: new Date(now.getTime() + profile.renewalWindowDays * DAY_MS),
    keyIsNew: !profile.reuseKey,
    isDue: profile.renewalWindowDays > 0,
  }
}

export function createAccountRules(
  allowlists: AllowlistStore,
  profiles: CsrProfileStore,
  policy: AccountRulesPolicy,
): AccountRules {
  const compiled = new LruMap<string, CsrProfile>(COMPILED_PROFILES)

  async function profileOf(id: string) {
    const record = await profiles.find(id)
    if (!record) return undefined // deleted since the order was read
    const profile = compiled.get(record.data) ?? parseCsrProfile(JSON.parse(record.data))
    compiled.set(record.data, profile)
    return { profile, csrProfile: { id, version: record.version } }
  }

  return {
    allowlistOf: policy.enforceAllowlist ? allowlists.find : undefined,

    async checkCsrProfile(csr, { csrProfileId }, now) {
      const found = csrProfileId === undefined ? undefined : await profileOf(csrProfileId)
      if (!found) {
        if (!policy.requireCsrProfile) return {}
        throw new Problem('badCSR', 'this account has no CSR profile, and this server issues nothing without one')
      }
      const { profile, csrProfile } = found
      const demands = historyDemands(csr, profile, now)
      const history = demands && (await profiles.historyOf(demands))
      const violations = csrProfileViolations(csr, profile, { history })
      if (violations.length > 0) throw csrProfileProblem(violations)
      return { csrProfile, history: demands }
    },
  }
}

/** Limit of each kind for an account and day; 0 is none. */
export type QuotaPolicy = Record<UsageKind, number>

export interface Quotas {
  /**
   * Runs `work` within the account's quota. A throw, or a result that used none, refunds the count;
   * a failed refund does not change the outcome.
   * @param isUsed by default any result but `undefined`
   * @throws Problem rateLimited when the day's quota is used up
   */
  charged<T>(kind: UsageKind, asked: QuotaRequest, work: () => Promise<T>, isUsed?: (result: T) => boolean): Promise<T>
}

interface QuotaRequest {
  accountId: string
  /** Identifiers of the order or authorization. */
  identifiers: readonly Identifier[]
}

export interface QuotaEvents {
  exceeded(kind: UsageKind, asked: QuotaRequest, limit: number): void
  /** The day then counts one too many. */
  refundFailed(kind: UsageKind, accountId: string, error: unknown): void
}

export function createQuotas(store: UsageStore, policy: QuotaPolicy, events: QuotaEvents): Quotas {
  return {
    async charged(kind, asked, work, isUsed = (result) => result !== undefined) {
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
