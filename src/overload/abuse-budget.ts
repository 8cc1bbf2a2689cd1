/**
 * Budget of failed requests for each address, in each front thread (docs/operations/limits.md).
 *
 * Verifying a signature is the most work that a stranger can cause. An address pays for each failed signature, each
 * look-up of an unknown account and each body that is too large. Other refused requests cost a tenth.
 *
 * Over the bound no signature from that address is verified. An account that last signed correctly from this very
 * address is exempt, so an abuser does not lock out its neighbours.
 */

import { randomInt } from 'node:crypto'
import { countedAddress } from '../shared/lib/ip-address.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { isHeavy } from './overload.ts'

const CELLS = 4096
/** Keeps weights in the exact range of a double: one walk over the cells in thirty half-lives. */
const MAX_WEIGHT = 2 ** 30

/** Hash of a key; several sketches can use the same one. */
export type SketchKey = number

const SEED = randomInt(2 ** 31)

/** FNV-1a with a secret seed and the final mix of MurmurHash3: 0.1 µs for an address. */
export function sketchKey(text: string): SketchKey {
  let hash = SEED
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/**
 * A count-min sketch with decay: recent usage by key, in fixed memory.
 *
 * Each key has a cell in two rows, at secret places; the smaller one is its amount. Two keys are confused only when
 * they share both cells (one in seventeen million pairs). Amounts halve with each half-life without a walk over the
 * cells. Added amounts are multiplied by a weight that grows with time, and read amounts divided by it.
 */
export class DecayingSketch {
  readonly #halfLifeMs: number
  readonly #first = new Float64Array(CELLS)
  readonly #second = new Float64Array(CELLS)
  #epoch = 0
  /** Sum over all keys, in the weights of the cells. */
  #sum = 0

  constructor(halfLifeMs: number) {
    this.#halfLifeMs = halfLifeMs
  }

  /** @param now milliseconds of a monotonic clock */
  add(key: SketchKey, amount: number, now: number): void {
    const weighted = amount * this.#weight(now)
    this.#first[key % CELLS]! += weighted
    this.#second[(key >>> 12) % CELLS]! += weighted
    this.#sum += weighted
  }

  amount(key: SketchKey, now: number): number {
    // First, because it may rescale the cells.
    const weight = this.#weight(now)
    return Math.min(this.#first[key % CELLS]!, this.#second[(key >>> 12) % CELLS]!) / weight
  }

  total(now: number): number {
    const weight = this.#weight(now)
    return this.#sum / weight
  }

  /**
   * How many keys have at least `least`, and the largest amount. Walks over the cells (some µs);
   * keys that share a cell count as one, with the sum of their amounts.
   */
  profile(least: number, now: number): { users: number; largest: number } {
    const weight = this.#weight(now)
    const bound = least * weight
    let users = 0
    let largest = 0
    for (let at = 0; at < CELLS; at++) {
      const amount = this.#first[at]!
      if (amount >= bound) users++
      if (amount > largest) largest = amount
    }
    return { users, largest: largest / weight }
  }

  #weight(now: number): number {
    if (this.#epoch === 0) this.#epoch = now
    const weight = 2 ** ((now - this.#epoch) / this.#halfLifeMs)
    if (weight < MAX_WEIGHT) return weight
    for (let at = 0; at < CELLS; at++) {
      this.#first[at]! /= weight
      this.#second[at]! /= weight
    }
    this.#sum /= weight
    this.#epoch = now
    return 1
  }
}

export const addressKey = (address: string): SketchKey => sketchKey(countedAddress(address))

/** Finds addresses that use far more than the others, from a sketch of their recent usage. */
export class HeavyAddresses {
  readonly #usage: DecayingSketch
  #users = 0
  #total = 0

  constructor(halfLifeMs: number) {
    this.#usage = new DecayingSketch(halfLifeMs)
  }

  count(key: SketchKey, amount: number, now: number): void {
    this.#usage.add(key, amount, now)
  }

  amount(key: SketchKey, now: number): number {
    return this.#usage.amount(key, now)
  }

  /**
   * Updates users and total for `isHeavy`. It walks over the sketch, which takes some µs.
   * @param leastShare of the total that makes an address a user; the least amount is one
   * @returns whether any address is heavy
   */
  look(now: number, leastShare = 0): boolean {
    this.#total = this.#usage.total(now)
    const { users, largest } = this.#usage.profile(Math.max(1, this.#total * leastShare), now)
    this.#users = users
    return isHeavy(largest, this.#total, users)
  }

  /** Compares with users and total of the last `look`. */
  isHeavy(key: SketchKey, now: number): boolean {
    return isHeavy(this.#usage.amount(key, now), this.#total, this.#users)
  }
}

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

interface AbuseBudgetOptions {
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
