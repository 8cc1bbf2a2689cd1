/**
 * Rate limits by client address, account and identifier (docs/decisions/rate-limits.md).
 *
 * The address is counted first, in this instance's memory (a few microseconds). The account is
 * charged after signature and nonce. Identifiers are checked at new-order and charged, all or none,
 * at finalize, so that a stranger cannot use them up.
 *
 * `database` charges the same keys again in a shared table, and the memory caches its refusals.
 * Without the database such a request fails (503).
 *
 * Quotas of an account count for a day, always in the database.
 */

import {
  type AddressCategory,
  charged,
  fitting,
  type Pace,
  paceOf,
  type RateCategory,
  type RateLimit,
  refunded,
  waitOf,
} from '../domain/rate-limit.ts'
import { countedAddress } from '../shared/lib/ip-address.ts'
import type { SharedTable } from '../shared/lib/shared-memory.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import type { UsageKind, UsageStore } from '../store/account-rules-store.ts'
import type { RateLimitStore } from '../store/rate-limit-store.ts'

export interface RateLimitSettings {
  enabled: boolean
  backend: 'memory' | 'database'
  limits: Record<RateCategory, RateLimit>
}

interface Counted {
  category: RateCategory
  /** Address, account id or identifier. */
  subject: string
}

/** One request, counted for its address. */
export interface Visit {
  /**
   * @param mayBeExempt counts a request over the limit under a second key with the same limit
   * @throws Problem rateLimited when the address is over its limit
   */
  require(mayBeExempt?: boolean): void
  /**
   * Charges the address and `counted`, after the request was verified. A second call does nothing.
   * @param exempt charges nothing, not even the address (a renewal, RFC 9773 §5)
   * @returns undefined when there is nothing to await
   * @throws Problem rateLimited
   */
  charge(counted?: readonly Counted[], exempt?: boolean): Promise<void> | undefined
}

export interface RateLimitEvents {
  limited(category: RateCategory, subject: string): void
}

export function countedIdentifiers(identifiers: readonly Identifier[]): Counted[] {
  return identifiers.map(({ type, value }) => ({ category: 'new_order_per_identifier', subject: `${type} ${value}` }))
}

interface Charge extends Counted {
  key: string
  pace: Pace
}

const NO_LIMITS: Visit = { require() {}, charge: () => undefined }

interface RateLimiterOptions {
  table: SharedTable
  store: RateLimitStore
  settings: RateLimitSettings
  events: RateLimitEvents
}

export class RateLimiter {
  readonly #table: SharedTable
  readonly #store: RateLimitStore
  readonly #events: RateLimitEvents
  #settings: RateLimitSettings
  #paces: Record<RateCategory, Pace>

  constructor({ table, store, settings, events }: RateLimiterOptions) {
    this.#table = table
    this.#store = store
    this.#events = events
    this.#settings = settings
    this.#paces = pacesOf(settings)
  }

  /** Takes effect with the next request; a changed limit starts from zero. */
  apply(settings: RateLimitSettings): void {
    this.#settings = settings
    this.#paces = pacesOf(settings)
  }

  /** Whether a charge is a statement. */
  get isShared(): boolean {
    return this.#settings.enabled && this.#settings.backend === 'database'
  }

  visit(category: AddressCategory, address: string): Visit {
    if (!this.#settings.enabled) return NO_LIMITS
    return this.#visit(this.#chargeOf({ category, subject: countedAddress(address) }))
  }

  /** Charges nothing. @throws Problem rateLimited when this instance knows one to be used up */
  require(counted: readonly Counted[]): void {
    if (!this.#settings.enabled) return
    const now = nowMicros()
    for (const one of counted) this.#requireOne(this.#chargeOf(one), now)
  }

  /**
   * Charges all or none, from any address.
   * @returns undefined when there is nothing to await
   * @throws Problem rateLimited
   */
  charge(counted: readonly Counted[]): Promise<void> | undefined {
    if (!this.#settings.enabled) return undefined
    const charges = counted.map((one) => this.#chargeOf(one))
    this.#takeAll(charges)
    return this.isShared ? this.#chargeShared(charges) : undefined
  }

  /** Returns the charge of a request that was not served. Where the database is away its charge stays. */
  async giveBack(counted: readonly Counted[]): Promise<void> {
    if (!this.#settings.enabled) return
    const charges = counted.map((one) => this.#chargeOf(one))
    for (const charge of charges) this.#giveBack(charge)
    // The limit then counts one request too many, until its window is over.
    if (this.isShared) await this.#store.giveBack(charges).catch(() => undefined)
  }

  #visit(arrival: Charge): Visit {
    const { isShared } = this
    const wait = this.#take(arrival, nowMicros())
    /** Refunded to an exempt request. */
    let taken = wait === undefined ? arrival : undefined
    let isCharged = false
    return {
      require: (mayBeExempt = false) => {
        if (wait === undefined) return
        const apart = { ...arrival, key: `${arrival.key} exempt?` }
        if (!mayBeExempt || this.#take(apart, nowMicros()) !== undefined) throw this.#refusal(arrival, wait)
        taken = apart
      },
      charge: (counted = [], exempt = false) => {
        if (isCharged) return undefined
        isCharged = true
        if (exempt) {
          if (taken) this.#giveBack(taken)
          return undefined
        }
        if (wait !== undefined) throw this.#refusal(arrival, wait)
        const more = counted.map((one) => this.#chargeOf(one))
        this.#takeAll(more)
        return isShared ? this.#chargeShared([arrival, ...more]) : undefined
      },
    }
  }

  /** The limit is part of the key, because stored times are meaningless under another limit. */
  #chargeOf({ category, subject }: Counted): Charge {
    const { requests, windowSeconds } = this.#settings.limits[category]
    const pace = this.#paces[category]
    return { category, subject, key: `${category} ${requests}/${windowSeconds} ${subject}`, pace }
  }

  /** @returns microseconds to wait when the key has nothing left; undefined when it was charged */
  #take({ key, pace }: Charge, now: number): number | undefined {
    let wait: number | undefined
    this.#table.update(key, (tat) => {
      if (fitting(tat, pace, now) > 0) return charged(tat, pace, now)
      wait = waitOf(tat, pace, now)
      return tat
    })
    return wait
  }

  #requireOne(charge: Charge, now: number): void {
    const tat = this.#table.get(charge.key)
    if (fitting(tat, charge.pace, now) === 0) throw this.#refusal(charge, waitOf(tat, charge.pace, now))
  }

  #giveBack({ key, pace }: Charge): void {
    this.#table.update(key, (tat) => refunded(tat, pace))
  }

  /** @throws Problem, with nothing charged */
  #takeAll(charges: readonly Charge[]): void {
    const now = nowMicros()
    for (const [i, charge] of charges.entries()) {
      const wait = this.#take(charge, now)
      if (wait === undefined) continue
      for (const taken of charges.slice(0, i)) this.#giveBack(taken)
      throw this.#refusal(charge, wait)
    }
  }

  async #chargeShared(charges: readonly Charge[]): Promise<void> {
    const exceeded = await this.#store.charge(charges)
    if (!exceeded) return
    const charge = charges.find(({ key }) => key === exceeded.key) as Charge
    // Until the wait is over this instance refuses without the database.
    const tat = nowMicros() + charge.pace.tolerance + exceeded.wait
    this.#table.update(charge.key, (known) => Math.max(known, tat))
    throw this.#refusal(charge, exceeded.wait)
  }

  #refusal({ category, subject }: Charge, waitMicros: number): Problem {
    this.#events.limited(category, subject)
    const { requests, windowSeconds } = this.#settings.limits[category]
    const retryAfterSeconds = Math.max(1, Math.ceil(waitMicros / 1e6))
    const until = renderTimestamp(new Date(Date.now() + retryAfterSeconds * 1000))
    return new Problem(
      'rateLimited',
      `rate limit ${category}: ${requests} requests in ${windowSeconds} seconds for ${subject}; come back in ${retryAfterSeconds} seconds, at ${until}`,
      { retryAfterSeconds },
    )
  }
}

function pacesOf({ limits }: RateLimitSettings): Record<RateCategory, Pace> {
  return Object.fromEntries(Object.entries(limits).map(([category, limit]) => [category, paceOf(limit)])) as Record<
    RateCategory,
    Pace
  >
}

/** Monotonic, and the same in all threads: a jump of the clock refuses nobody. */
const nowMicros = () => {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1e6 + Math.floor(nanoseconds / 1000)
}

const DAY_MS = 86_400_000

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
        throw quotaRefusal(kind, limit)
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

function quotaRefusal(kind: UsageKind, limit: number): Problem {
  const midnight = (Math.floor(Date.now() / DAY_MS) + 1) * DAY_MS
  return new Problem(
    'rateLimited',
    `quota: ${limit} ${kind} a day for an account; come back after ${renderTimestamp(new Date(midnight))}`,
    { retryAfterSeconds: Math.ceil((midnight - Date.now()) / 1000) },
  )
}
