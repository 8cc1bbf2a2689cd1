/** Random octets from node:crypto, drawn 4096 at a time to save calls to the system. */

import { randomFillSync } from 'node:crypto'

const POOL_BYTES = 4096
const pool = Buffer.allocUnsafeSlow(POOL_BYTES)
let taken = POOL_BYTES

/**
 * @param length at most 4096
 * @returns a copy; no two callers share octets
 */
export function randomOctets(length: number): Buffer {
  if (taken + length > POOL_BYTES) {
    randomFillSync(pool)
    taken = 0
  }
  const octets = Buffer.from(pool.subarray(taken, taken + length))
  taken += length
  return octets
}
