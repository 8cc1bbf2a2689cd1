/** Recent usage by address, and the addresses that use far more than the others. */

import { randomInt } from 'node:crypto'
import { countedAddress } from '../domain/rate-limit.ts'
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
 * Each key has a cell in two rows, at secret places; the smaller one is its amount. Two keys are
 * confused only when they share both cells (one in seventeen million pairs).
 * Amounts halve with each half-life without a walk over the cells. Added amounts are multiplied by
 * a weight that grows with time, and read amounts divided by it.
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
