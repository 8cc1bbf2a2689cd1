/**
 * Passwords of administrators: generated here, hashed with Argon2id, never stored in clear text.
 *
 * Hashing runs in libuv's threads, which file and DNS access of the whole process share, so at most
 * two run at once. Hashes of werkzeug (scrypt) are verified, so that its users can be imported.
 */

import { randomInt, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { hash, verify } from '@node-rs/argon2'
import { AdminError } from '../../domain/admin-error.ts'

/** OWASP's parameters for Argon2id, the library's default algorithm. A stored hash with others is replaced at the next login. */
const PARAMETERS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }
const CURRENT = `$argon2id$v=19$m=${PARAMETERS.memoryCost},t=${PARAMETERS.timeCost},p=${PARAMETERS.parallelism}$`

const MOST_RUNNING = 2
const MOST_WAITING = 16
const BUSY_RETRY_SECONDS = 2

const LETTERS = ['ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz', '0123456789', '!@#$%^&*-_+='] as const

/** At least one character of each class. @param length at least 8 */
export function generatePassword(length: number): string {
  const all = LETTERS.join('')
  const pick = (letters: string) => letters[randomInt(letters.length)] as string
  const characters = Array.from({ length }, (_, index) => pick(LETTERS[index] ?? all))
  for (let i = characters.length - 1; i > 0; i--) {
    const j = randomInt(i + 1)
    ;[characters[i], characters[j]] = [characters[j] as string, characters[i] as string]
  }
  return characters.join('')
}

export interface PasswordVerdict {
  matches: boolean
  /** The hash has other parameters than new ones have. */
  isOutdated: boolean
}

export class PasswordHasher {
  #running = 0
  readonly #waiting: (() => void)[] = []
  #decoy: Promise<string> | undefined

  hash(password: string): Promise<string> {
    return this.#inTurn(() => hash(password, PARAMETERS))
  }

  /**
   * @param stored undefined for an unknown user, which takes as long as a known one
   * @throws AdminError rate_limited when too many hashes wait
   */
  async verify(stored: string | undefined, password: string): Promise<PasswordVerdict> {
    this.#decoy ??= hash(generatePassword(20), PARAMETERS)
    const against = stored ?? (await this.#decoy)
    const matches = await this.#inTurn(() => matchesHash(against, password))
    return { matches: matches && stored !== undefined, isOutdated: !against.startsWith(CURRENT) }
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= MOST_RUNNING) {
      if (this.#waiting.length >= MOST_WAITING)
        throw new AdminError('rate_limited', 'too many logins at once; try again', {
          retryAfterSeconds: BUSY_RETRY_SECONDS,
        })
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    } else this.#running++
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#running--
    }
  }
}

function matchesHash(stored: string, password: string): Promise<boolean> {
  if (stored.startsWith('scrypt:')) return matchesWerkzeug(stored, password)
  return verify(stored, password)
}

const WERKZEUG =
  /^scrypt:(?<cost>\d{1,7}):(?<block>\d{1,2}):(?<parallel>\d)\$(?<salt>[^$]{1,64})\$(?<digest>[0-9a-f]{128})$/

/** The costs a stored hash may ask for: 128 MiB, four times werkzeug's own. */
const MOST_SCRYPT_BYTES = 128 * 1024 * 1024

/** `scrypt:N:r:p$salt$hex`; the salt's own characters are the salt. */
export function isWerkzeugHash(text: string): boolean {
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

async function matchesWerkzeug(stored: string, password: string): Promise<boolean> {
  const parts = isWerkzeugHash(stored) ? WERKZEUG.exec(stored)?.groups : undefined
  if (!parts) return false
  const { cost, block, parallel, salt, digest } = parts
  const expected = Buffer.from(digest as string, 'hex')
  const options = { N: Number(cost), r: Number(block), p: Number(parallel), maxmem: 2 * MOST_SCRYPT_BYTES }
  const derive = promisify<string, string, number, typeof options, Buffer>(scrypt)
  return timingSafeEqual(await derive(password, salt as string, expected.length, options), expected)
}
