/**
 * Operator rules for single accounts: the identifiers they may order, and their CSR profile.
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
import { Problem } from '../shared/protocol/problem.ts'
import type { AllowlistStore, CsrProfileStore } from '../store/account-rules-store.ts'
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
