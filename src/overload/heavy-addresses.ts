/** Finds addresses that use far more than the others, from a sketch of their recent usage. */

import { countedAddress } from '../domain/rate-limit.ts'
import { DecayingSketch, type SketchKey, sketchKey } from './decaying-sketch.ts'
import { isHeavy } from './overload.ts'

export const addressKey = (address: string): SketchKey => sketchKey(countedAddress(address))

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
