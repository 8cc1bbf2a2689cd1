/**
 * Passwords of administrators: generated here or checked, hashed, never stored in clear text.
 *
 * The service hashes in a thread of its own: a hash needs 30 ms of a processor, and must hold up nothing else.
 */

import { randomInt } from 'node:crypto'
import type { Logger } from 'pino'
import { AdminError } from '../../domain/admin-error.ts'
import type { ActorRef } from '../../runtime/actor.ts'
import { ActorError } from '../../runtime/errors.ts'
import { superviseThread } from '../../runtime/thread.ts'
import { programFile } from '../../shared/lib/program-files.ts'
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

/** The hash of a user who has no password, and signs in by OpenID Connect: no password fits it. */
export const NO_PASSWORD = '!'

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

interface PasswordVerdict {
  matches: boolean
  /** The hash has other parameters than new ones have. */
  isOutdated: boolean
}

/** Known users come before strangers, whose flood of logins would keep administrators out. */
type Caller = 'known' | 'stranger'

export class PasswordHasher {
  readonly #hashing: PasswordHashing
  #isBusy = false
  readonly #waiting: Readonly<Record<Caller, (() => void)[]>> = { known: [], stranger: [] }
  #decoy: Promise<string> | undefined

  constructor(hashing: PasswordHashing) {
    this.#hashing = hashing
  }

  /** For a user who has signed in. */
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
    const isThere = stored !== undefined && stored !== NO_PASSWORD
    const against = isThere ? stored : await this.#decoy
    const matches = await this.#inTurn(caller, () => this.#hashing.matches(against, password))
    return { matches: matches && isThere, isOutdated: !isCurrent(against) }
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

export type HashingMessages = {
  hash: { message: string; reply: string }
  matches: { message: { stored: string; password: string }; reply: boolean }
}

/** Callers send one after the other. */
const MAILBOX_LIMIT = 4
/** Less than the 30 s that clients wait. */
const ANSWER_MS = 20_000
const RETRY_SECONDS = 5
const READY_MS = 60_000
const STOP_MS = 1_000
const RESTART = { initialDelayMs: 50, maxDelayMs: 5_000, maxRestarts: 20, windowMs: 60_000 }

/** The thread starts with the first password, and ends with the one that calls. */
export function hashingInThread(log: Logger): PasswordHashing {
  const thread = superviseThread<HashingMessages>({
    name: 'passwords',
    entry: programFile('src/admin/users/hashing-thread.ts'),
    data: undefined,
    mailboxLimit: MAILBOX_LIMIT,
    readyTimeoutMs: READY_MS,
    stopTimeoutMs: STOP_MS,
    restart: RESTART,
    onEvent({ type, name, ...facts }) {
      if (type === 'crashed') log.error({ thread: name, ...facts }, 'thread crashed and is restarted')
      // Without it no user could sign in; the caller's supervisor decides.
      if (type === 'escalated') throw new Error('the thread of password hashes crashes again and again')
    },
  })
  let starting: Promise<void> | undefined
  async function started(): Promise<ActorRef<HashingMessages>> {
    starting ??= thread.start().catch((error) => {
      starting = undefined
      throw error
    })
    await starting
    return thread.ref
  }
  return {
    hash: async (password) => (await started()).ask('hash', password, ANSWER_MS).catch(busy),
    matches: async (stored, password) => (await started()).ask('matches', { stored, password }, ANSWER_MS).catch(busy),
  }
}

function busy(error: unknown): never {
  if (!(error instanceof ActorError)) throw error
  throw new AdminError('unavailable', 'the server is too busy to check a password; try again', {
    cause: error,
    retryAfterSeconds: RETRY_SECONDS,
  })
}

// A password of one's own choice follows NIST SP 800-63B-4 §3.1.1.2: 15 characters where it is the only factor, checked
// against common ones, and no rule about kinds of characters.
export const LEAST_CHARACTERS = 15
const MOST_CHARACTERS = 256
/** So many characters must be left of a password without its common parts. */
const LEAST_OF_ITS_OWN = 8

/** Words of which the passwords are made that lists of leaked ones have most often. */
const COMMON = `
  password passwort passw0rd p@ssword p@ssw0rd passphrase secret letmein welcome admin administrator root login user
  master access changeme default temporary hello monkey dragon football baseball princess sunshine shadow superman batman
  michael jordan charlie jessica ashley daniel thomas robert andrew summer winter spring autumn monday friday january
  december iloveyou trustno1 starwars pokemon minecraft whatever freedom flower cheese computer internet server
  security certificate authority chancery qwerty qwertz qwertyuiop azerty asdfgh asdfghjkl zxcvbn zxcvbnm qazwsx
  1q2w3e4r zaq12wsx abc123 test testing guest company office
`
  .trim()
  .split(/\s+/)

/** `1234`, `cdef`, `aaaa`, also backwards: at least three steps of the same kind. */
function withoutRuns(text: string): string {
  let kept = ''
  for (let index = 0; index < text.length; index++) {
    const step = (at: number) => text.charCodeAt(at) - text.charCodeAt(at - 1)
    const isRun = index >= 2 && Math.abs(step(index)) <= 1 && step(index) === step(index - 1)
    if (!isRun) kept += text[index]
  }
  return kept
}

/** The same text again and again counts once. */
const withoutRepeats = (text: string) => text.replaceAll(/(.{2,}?)\1+/g, '$1')

/**
 * Why a password cannot be taken; undefined when it can.
 * @param context words that a guesser knows: the username, the mail address
 */
export function passwordFault(password: string, context: readonly string[]): string | undefined {
  const { length } = [...password]
  if (length < LEAST_CHARACTERS) return `must have at least ${LEAST_CHARACTERS} characters`
  if (length > MOST_CHARACTERS) return `must have at most ${MOST_CHARACTERS} characters`
  const known = [...COMMON, ...context.flatMap((word) => word.toLowerCase().split(/[^\p{L}\p{N}]+/u))]
  // The longest first: `qwertyuiop` contains `qwerty`.
  const words = known.filter((word) => word.length >= 3).sort((a, b) => b.length - a.length)
  const rest = words.reduce((text, word) => text.replaceAll(word, ''), password.toLowerCase())
  if (withoutRepeats(withoutRuns(rest)).length >= LEAST_OF_ITS_OWN) return undefined
  return 'is too easy to guess: beside common words, names, sequences and repetitions there is little left of it'
}
