/** Random octets from the system's generator (node:crypto), drawn in advance: one call of it serves many takers. */

import { randomFillSync } from 'node:crypto'

const POOL_BYTES = 4096
const pool = Buffer.allocUnsafeSlow(POOL_BYTES)
let taken = POOL_BYTES

/** @param length at most 4096. @returns octets of the taker's own, which nobody else gets */
export function randomOctets(length: number): Buffer {
  if (taken + length > POOL_BYTES) {
    randomFillSync(pool)
    taken = 0
  }
  const octets = Buffer.from(pool.subarray(taken, taken + length))
  taken += length
  return octets
}
