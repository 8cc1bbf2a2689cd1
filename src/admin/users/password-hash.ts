/**
 * Hashes of passwords: Argon2id. Werkzeug's (scrypt) are verified, so that its users can be imported.
 *
 * Each call keeps its thread busy for some 30 ms, and longer for an imported hash.
 */

import { scryptSync, timingSafeEqual } from 'node:crypto'
import { hashSync, verifySync } from '@node-rs/argon2'

/** OWASP's parameters for Argon2id, the library's default algorithm. A stored hash with others is replaced at the next login. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }
const CURRENT = `$argon2id$v=19$m=${PARAMETERS.memoryCost},t=${PARAMETERS.timeCost},p=${PARAMETERS.parallelism}$`

export const hashPassword = (password: string): string => hashSync(password, PARAMETERS)

/** Whether it has the parameters of new hashes. */
export const isCurrent = (stored: string): boolean => stored.startsWith(CURRENT)

export function matchesHash(stored: string, password: string): boolean {
  return stored.startsWith('scrypt:') ? matchesWerkzeug(stored, password) : verifySync(stored, password)
}

const WERKZEUG =
  /^scrypt:(?<cost>\d{1,7}):(?<block>\d{1,2}):(?<parallel>\d)\$(?<salt>[^$]{1,64})\$(?<digest>[0-9a-f]{128})$/

/** The costs a stored hash may ask for: 128 MiB, four times werkzeug's own. */
const MOST_SCRYPT_BYTES = 128 * 1024 * 1024

/** `scrypt:N:r:p$salt$hex`; the salt's own characters are the salt. */
function isWerkzeugHash(text: string): boolean {
  const { cost, block } = WERKZEUG.exec(text)?.groups ?? {}
  const n = Number(cost)
  return n > 1 && (n & (n - 1)) === 0 && Number(block) > 0 && 128 * n * Number(block) <= MOST_SCRYPT_BYTES
}

const ARGON2 =
  /^\$argon2(?:id|i|d)\$v=19\$m=(?<memory>\d{1,7}),t=(?<time>\d{1,2}),p=(?<lanes>\d{1,2})\$[\w+/]{11,86}\$[\w+/]{21,172}$/
const MOST_ARGON2_KIB = 256 * 1024

/** Whether a hash of another service can be verified here, at a cost that this one can bear. */
export function isUsableHash(text: string): boolean {
  const { memory, time, lanes } = ARGON2.exec(text)?.groups ?? {}
  const isArgon2 = Number(memory) >= 8 && Number(memory) <= MOST_ARGON2_KIB && Number(time) >= 1 && Number(lanes) >= 1
  return isArgon2 || isWerkzeugHash(text)
}

function matchesWerkzeug(stored: string, password: string): boolean {
  const parts = isWerkzeugHash(stored) ? WERKZEUG.exec(stored)?.groups : undefined
  if (!parts) return false
  const { cost, block, parallel, salt, digest } = parts
  const expected = Buffer.from(digest as string, 'hex')
  const options = { N: Number(cost), r: Number(block), p: Number(parallel), maxmem: 2 * MOST_SCRYPT_BYTES }
  return timingSafeEqual(scryptSync(password, salt as string, expected.length, options), expected)
}
