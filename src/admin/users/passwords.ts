/** Passwords of administrators: generated here, hashed, never stored in clear text. */

import { randomInt } from 'node:crypto'
import { AdminError } from '../../domain/admin-error.ts'
import { hashPassword, isCurrent, matchesHash } from './password-hash.ts'

/** One hash at a time; more wait in each of the two queues, and then are refused. */
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

/** Where hashes are made. */
export interface PasswordHashing {
  hash(password: string): Promise<string>
  matches(stored: string, password: string): Promise<boolean>
}

/** For a command, which has nothing else to do meanwhile. */
export const HASHING_HERE: PasswordHashing = {
  hash: async (password) => hashPassword(password),
  matches: async (stored, password) => matchesHash(stored, password),
}

export interface PasswordVerdict {
  matches: boolean
  /** The hash has other parameters than new ones have. */
  isOutdated: boolean
}

/** Who is known goes before strangers, whose flood of logins would keep administrators out. */
type Caller = 'known' | 'stranger'

export class PasswordHasher {
  readonly #hashing: PasswordHashing
  #isBusy = false
  readonly #waiting: Readonly<Record<Caller, (() => void)[]>> = { known: [], stranger: [] }
  #decoy: Promise<string> | undefined

  constructor(hashing: PasswordHashing) {
    this.#hashing = hashing
  }

  /** Of somebody who has signed in. */
  hash(password: string): Promise<string> {
    return this.#inTurn('known', () => this.#hashing.hash(password))
  }

  /**
   * @param stored undefined for an unknown user, which takes as long as a known one
   * @throws AdminError rate_limited when too many hashes wait
   */
  async verify(stored: string | undefined, password: string, caller: Caller): Promise<PasswordVerdict> {
    this.#decoy ??= this.#hashing.hash(generatePassword(20)).catch((error) => {
      this.#decoy = undefined
      throw error
    })
    const against = stored ?? (await this.#decoy)
    const matches = await this.#inTurn(caller, () => this.#hashing.matches(against, password))
    return { matches: matches && stored !== undefined, isOutdated: !isCurrent(against) }
  }

  async #inTurn<T>(caller: Caller, work: () => Promise<T>): Promise<T> {
    const waiting = this.#waiting[caller]
    if (this.#isBusy) {
      if (waiting.length >= MOST_WAITING)
        throw new AdminError('rate_limited', 'too many passwords at once; try again', {
          retryAfterSeconds: BUSY_RETRY_SECONDS,
        })
      await new Promise<void>((resolve) => waiting.push(resolve))
    }
    this.#isBusy = true
    try {
      return await work()
    } finally {
      const next = this.#waiting.known.shift() ?? this.#waiting.stranger.shift()
      if (next) next()
      else this.#isBusy = false
    }
  }
}
