/**
 * Rate limits of requests (decisions 24): counted by client address, account and identifier.
 *
 * A request is first counted for its address, in this instance's memory and before it has proved anything: that costs a
 * few microseconds, and the only limit that a stranger can use up is his own address's. An account is charged when
 * signature and nonce have been checked. An identifier is looked at when it is ordered, and charged when its certificate is
 * asked for by who has shown control of it: all names of an order or none.
 *
 * `memory` stops there: exact for all threads of the instance. `database` then charges the same keys once more, the
 * address among them, in the shared table; the memory in front of it keeps a flood from becoming database work, and
 * remembers what the database has refused. When the database cannot be asked the request fails with it (503): a CA
 * that has lost count does not go on without counting.
 */

import {
  type AddressCategory,
  charged,
  countedAddress,
  fitting,
  type Pace,
  paceOf,
  type RateCategory,
  type RateLimit,
  refunded,
  waitOf,
} from '../domain/rate-limit.ts'
import type { SharedTable } from '../shared/lib/shared-table.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import type { RateLimitStore } from '../store/rate-limit-store.ts'

export interface RateLimitSettings {
  enabled: boolean
  backend: 'memory' | 'database'
  limits: Record<RateCategory, RateLimit>
}

export interface Counted {
  category: RateCategory
  /** Address, account id or identifier. */
  subject: string
}

/** One request's dealings with the limit of its address. */
export interface Visit {
  /** @throws Problem rateLimited when the address is over its limit */
  require(): void
  /**
   * The request has proved itself: charges its address, and what else it is counted for. Once; a second call does nothing.
   * @param exempt this request is not to be limited after all (a renewal, RFC 9773 §5), its address not even charged.
   * @returns undefined when nothing has to be waited for. @throws Problem rateLimited
   */
  charge(counted?: readonly Counted[], exempt?: boolean): Promise<void> | undefined
}

export interface RateLimiter {
  visit(category: AddressCategory, address: string): Visit
  /** Charges nothing. @throws Problem rateLimited when one of them has nothing left, as far as this instance knows */
  require(counted: readonly Counted[]): void
  /** Whoever asks, from wherever: all or none. @returns undefined when nothing has to be waited for. @throws Problem rateLimited */
  charge(counted: readonly Counted[]): Promise<void> | undefined
  /** Takes effect with the next request; a limit that has changed counts anew. */
  apply(settings: RateLimitSettings): void
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

export function createRateLimiter(
  table: SharedTable,
  store: RateLimitStore,
  initial: RateLimitSettings,
  events: RateLimitEvents,
): RateLimiter {
  let settings = initial
  let paces = pacesOf(initial)

  /** The limit is part of the key: a debt is measured in time, and under another limit it would mean something else. */
  function chargeOf({ category, subject }: Counted): Charge {
    const { requests, windowSeconds } = settings.limits[category]
    return { category, subject, key: `${category} ${requests}/${windowSeconds} ${subject}`, pace: paces[category] }
  }

  /** @returns microseconds to wait when the key has nothing left; undefined when it was charged. */
  function take({ key, pace }: Charge, now: number): number | undefined {
    let wait: number | undefined
    table.update(key, (tat) => {
      if (fitting(tat, pace, now) > 0) return charged(tat, pace, now)
      wait = waitOf(tat, pace, now)
      return tat
    })
    return wait
  }

  function requireOne(charge: Charge, now: number): void {
    const tat = table.get(charge.key)
    if (fitting(tat, charge.pace, now) === 0) throw refusal(charge, waitOf(tat, charge.pace, now))
  }

  function giveBack({ key, pace }: Charge): void {
    table.update(key, (tat) => refunded(tat, pace))
  }

  /** @throws Problem, with nothing charged */
  function takeAll(charges: readonly Charge[]): void {
    const now = nowMicros()
    for (const [i, charge] of charges.entries()) {
      const wait = take(charge, now)
      if (wait === undefined) continue
      for (const taken of charges.slice(0, i)) giveBack(taken)
      throw refusal(charge, wait)
    }
  }

  async function chargeShared(charges: readonly Charge[]): Promise<void> {
    const exceeded = await store.charge(charges)
    if (!exceeded) return
    const charge = charges.find(({ key }) => key === exceeded.key) as Charge
    // Until then this instance refuses by itself.
    const tat = nowMicros() + charge.pace.tolerance + exceeded.wait
    table.update(charge.key, (known) => Math.max(known, tat))
    throw refusal(charge, exceeded.wait)
  }

  function refusal({ category, subject }: Charge, waitMicros: number): Problem {
    events.limited(category, subject)
    const { requests, windowSeconds } = settings.limits[category]
    const retryAfterSeconds = Math.max(1, Math.ceil(waitMicros / 1e6))
    const until = renderTimestamp(new Date(Date.now() + retryAfterSeconds * 1000))
    return new Problem(
      'rateLimited',
      `rate limit ${category}: ${requests} requests in ${windowSeconds} seconds for ${subject}; come back in ${retryAfterSeconds} seconds, at ${until}`,
      { retryAfterSeconds },
    )
  }

  function visitOf(arrival: Charge): Visit {
    const isShared = settings.backend === 'database'
    const wait = take(arrival, nowMicros())
    let isCharged = false
    return {
      require() {
        if (wait !== undefined) throw refusal(arrival, wait)
      },
      charge(counted = [], exempt = false) {
        if (isCharged) return undefined
        isCharged = true
        if (exempt) {
          if (wait === undefined) giveBack(arrival)
          return undefined
        }
        if (wait !== undefined) throw refusal(arrival, wait)
        const more = counted.map(chargeOf)
        takeAll(more)
        return isShared ? chargeShared([arrival, ...more]) : undefined
      },
    }
  }

  return {
    visit(category, address) {
      if (!settings.enabled) return NO_LIMITS
      return visitOf(chargeOf({ category, subject: countedAddress(address) }))
    },
    require(counted) {
      if (!settings.enabled) return
      const now = nowMicros()
      for (const one of counted) requireOne(chargeOf(one), now)
    },
    charge(counted) {
      if (!settings.enabled) return undefined
      const charges = counted.map(chargeOf)
      takeAll(charges)
      return settings.backend === 'database' ? chargeShared(charges) : undefined
    },
    apply(next) {
      settings = next
      paces = pacesOf(next)
    },
  }
}

function pacesOf({ limits }: RateLimitSettings): Record<RateCategory, Pace> {
  return Object.fromEntries(Object.entries(limits).map(([category, limit]) => [category, paceOf(limit)])) as Record<
    RateCategory,
    Pace
  >
}

const nowMicros = () => Date.now() * 1000
