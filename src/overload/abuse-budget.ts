/**
 * Budget of failed requests for each address, in each front thread (docs/operations/limits.md).
 *
 * Verifying a signature is the most work that a stranger can cause. Each failed one is charged to its address, as are
 * look-ups of unknown accounts, bodies that are too large, and at a tenth other refused requests.
 * Over the bound no signature from there is verified, unless its account last signed correctly from this very address:
 * neighbours of an abuser go on. Each front thread keeps budgets of its own.
 */

import { Problem } from '../shared/protocol/problem.ts'
import { addressKey, DecayingSketch } from './address-usage.ts'

/** Cost of a refused request, in signatures. Failed signatures are charged where they are verified. */
export const FAILURE_COSTS: Readonly<Record<number, number>> = {
  400: 0.1,
  401: 0.1,
  403: 0.1,
  404: 0.1,
  405: 0.1,
  413: 1,
  414: 0.1,
  415: 0.1,
}
/** An ACME client waits until its limit lets it in; a guesser of passwords does not. */
export const ADMIN_FAILURE_COSTS: Readonly<Record<number, number>> = { ...FAILURE_COSTS, 429: 0.1 }

/** Delay of a failure without budget: half of the time until the library closes a silent connection. */
export const FAILURE_DELAY_MS = 5_000

export interface AbuseBudgetOptions {
  isEnabled: boolean
  events: AbuseBudgetEvents
  clock?(): number
}

export interface AbuseBudgetEvents {
  /** At most once a second. */
  exhausted(address: string): void
  /** A signature was not verified. */
  refused(): void
}

const HALF_LIFE_MS = 10_000
/** A hundred clients of one address may all fail once. Seven failures a second stay below it. */
const BOUND = 100
/** Cap of a debt: an address is under the bound ten seconds after its last failure. */
const MAX_DEBT = 2 * BOUND
const ANNOUNCE_MS = 1000
const RETRY_SPREAD_SECONDS = 10

export class AbuseBudget {
  readonly #isEnabled: boolean
  readonly #events: AbuseBudgetEvents
  readonly #clock: () => number
  readonly #debts = new DecayingSketch(HALF_LIFE_MS)
  /** Until then an address may be over the bound; 0 skips all look-ups. */
  #looksUntil = 0
  #announcedAt = Number.NEGATIVE_INFINITY

  constructor({ isEnabled, events, clock = () => performance.now() }: AbuseBudgetOptions) {
    this.#isEnabled = isEnabled
    this.#events = events
    this.#clock = clock
  }

  /**
   * Called before a signature is verified.
   * @param provenFrom address of the account's last valid signature
   * @throws Problem rateLimited when the address is over the bound and `provenFrom` is another one
   */
  require(address: string, provenFrom?: string): void {
    if (this.#looksUntil === 0 || provenFrom === address || !this.isExhausted(address)) return
    this.#events.refused()
    throw new Problem('rateLimited', `too many requests from ${address} have failed; wait a little`, {
      retryAfterSeconds: 1 + Math.floor(Math.random() * RETRY_SPREAD_SECONDS),
    })
  }

  /** @param cost 1 is the cost of a signature */
  charge(address: string, cost: number): void {
    if (!this.#isEnabled) return
    const now = this.#clock()
    const key = addressKey(address)
    const debt = this.#debts.amount(key, now)
    if (debt < MAX_DEBT) this.#debts.add(key, cost, now)
    if (debt + cost <= BOUND) return
    this.#looksUntil = now + HALF_LIFE_MS
    if (now - this.#announcedAt < ANNOUNCE_MS) return
    this.#announcedAt = now
    this.#events.exhausted(address)
  }

  isExhausted(address: string): boolean {
    if (this.#looksUntil === 0) return false
    const now = this.#clock()
    if (now <= this.#looksUntil) return this.#debts.amount(addressKey(address), now) > BOUND
    this.#looksUntil = 0
    return false
  }
}
