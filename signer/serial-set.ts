/** Which serial numbers one CRL has had so far. */

import { randomInt } from 'node:crypto'

const PARTS = 256
const FIRST_SLOTS = 8

/**
 * A table with open addressing; a pair of zeros is free. There are many, because growing a small
 * one is fast.
 */
interface Part {
  slots: Uint32Array
  count: number
}

/**
 * False duplicates have a chance of 10⁻⁶ in a list of six million. Random seeds make the next
 * attempt independent.
 */
export class SerialSet {
  readonly #seeds = [randomInt(2 ** 32), randomInt(2 ** 32)] as const
  readonly #parts: Part[] = Array.from({ length: PARTS }, () => ({ slots: new Uint32Array(2 * FIRST_SLOTS), count: 0 }))

  /** @returns false when it was there already. */
  add(serialNumber: Buffer): boolean {
    const high = digest(serialNumber, this.#seeds[0])
    // The set bit avoids a pair of zeros.
    const low = digest(serialNumber, this.#seeds[1]) | 1
    const part = this.#parts[high % PARTS]!
    if (4 * part.count >= part.slots.length) grow(part)
    if (!insert(part.slots, high, low >>> 0)) return false
    part.count += 1
    return true
  }
}

function insert(slots: Uint32Array, high: number, low: number): boolean {
  const mask = slots.length / 2 - 1
  for (let slot = (low >>> 1) & mask; ; slot = (slot + 1) & mask) {
    if (slots[2 * slot + 1] === 0) {
      slots[2 * slot] = high
      slots[2 * slot + 1] = low
      return true
    }
    if (slots[2 * slot] === high && slots[2 * slot + 1] === low) return false
  }
}

function grow(part: Part): void {
  const larger = new Uint32Array(2 * part.slots.length)
  for (let at = 0; at < part.slots.length; at += 2)
    if (part.slots[at + 1] !== 0) insert(larger, part.slots[at]!, part.slots[at + 1]!)
  part.slots = larger
}

/** The steps of MurmurHash3, for one octet at a time. */
export function digest(octets: Buffer, seed: number): number {
  let hash = seed
  for (let at = 0; at < octets.length; at++) {
    hash = Math.imul(hash ^ octets[at]!, 0x85ebca6b)
    hash ^= hash >>> 13
  }
  hash = Math.imul(hash ^ octets.length, 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
