/**
 * Who has used how much of something lately, in fixed memory and without a map: a count-min sketch that forgets.
 *
 * Each key has a cell in each of two rows, at places that nobody outside can foresee; its amount is the smaller of the two, so a
 * stranger is taken for somebody else only where both cells meet (one in seventeen million pairs). Amounts halve with
 * every half-life. Nothing is walked for that: what is added counts for more the later it comes, and reading divides by the
 * weight of the moment.
 */

import { randomInt } from 'node:crypto'

const CELLS = 4096
/** Before the weights leave the exact range of a double; one walk over the cells in thirty half-lives. */
const MAX_WEIGHT = 2 ** 30

/** Hash of a key, made once and used with several sketches. */
export type SketchKey = number

const SEED = randomInt(2 ** 31)

/** FNV-1a from a secret start, with the finish of MurmurHash3: 0.1 µs for an address. */
export function sketchKey(text: string): SketchKey {
  let hash = SEED
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

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

  /** @param now milliseconds of a clock that does not go back. */
  add(key: SketchKey, amount: number, now: number): void {
    const weighted = amount * this.#weight(now)
    this.#first[key % CELLS]! += weighted
    this.#second[(key >>> 12) % CELLS]! += weighted
    this.#sum += weighted
  }

  amount(key: SketchKey, now: number): number {
    // First, because it may move the cells.
    const weight = this.#weight(now)
    return Math.min(this.#first[key % CELLS]!, this.#second[(key >>> 12) % CELLS]!) / weight
  }

  total(now: number): number {
    const weight = this.#weight(now)
    return this.#sum / weight
  }

  /**
   * How many keys have at least `least`, and the largest amount of one. A walk over the cells (some µs); keys that meet in a cell
   * count as one, with both amounts.
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
