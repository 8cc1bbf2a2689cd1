/**
 * Sessions of administrators: JSON Web Tokens (RFC 7519, HS256) whose `jti` names a row.
 *
 * A token is good only while its row, its user and the user's role say so, read with each request.
 */

import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { errors, jwtVerify, SignJWT } from 'jose'
import type { DatabasePool } from 'slonik'
import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import {
  addressSubject,
  countedAddress,
  MOST_OF_ADDRESS,
  MOST_OF_USERNAME,
  SLOW_MS,
  usernameSubject,
} from '../../domain/rate-limit.ts'
import { isUuid, uuidv7 } from '../../shared/lib/uuid.ts'
import {
  findUserForLogin,
  holdUsers,
  lockUserForLogin,
  lockUsers,
  noteLogin,
  replaceHash,
  type UserForLogin,
  type UserRow,
} from '../../store/user-store.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { noLongerGood } from './authority.ts'
import { noteFailedLogin } from './failed-logins.ts'
import type { PasswordHasher } from './passwords.ts'
import {
  countFailure,
  deleteSession,
  deleteSessionsOf,
  findApiToken,
  findSession,
  forgetFailures,
  forgetOldFailures,
  insertSession,
  isKnownAddress,
  lockedFor,
  noteLoginAddress,
} from './session-store.ts'

export interface SignInOptions {
  db: DatabasePool
  audit: AuditLog
  passwords: PasswordHasher
  tokenSecret: string
  tokenExpirySeconds: number
}

/** The author of a request, by a session or an API token. */
export type SignedIn = Actor & { userId: string }

const ISSUER = 'chancery'
/** An API token: this, then 256 random bits in base64url. */
export const API_TOKEN_PREFIX = 'chancery_'

/** An id that no user has. */
const NOBODY = '00000000-0000-0000-0000-000000000000'
/** Longer than a failure takes to write. */
const FAILURE_MS = 50

const API_TOKEN = /^chancery_[\w-]{43}$/

export const hashApiToken = (token: string): Buffer => createHash('sha256').update(token).digest()

export class SignIn {
  readonly #options: SignInOptions
  readonly #key: Uint8Array

  constructor(options: SignInOptions) {
    this.#options = options
    this.#key = new TextEncoder().encode(options.tokenSecret)
  }

  /** @throws AdminError unauthorized, rate_limited */
  async login(username: string, password: string, ipAddress: string): Promise<{ token: string; user: UserRow }> {
    const { db, passwords } = this.#options
    const user = await findUserForLogin(db, username)
    const attempt = { user, username, ipAddress }
    const isKnown = await this.#requireUnlocked(attempt)
    const caller = isKnown ? 'known' : 'stranger'
    const { matches, isOutdated } = await passwords.verify(user?.password_hash, password, caller)
    // Of guesses sent at once, those behind the lock count for nothing, right or wrong.
    await this.#requireUnlocked(attempt)
    if (!user || !matches || !user.enabled) {
      // What is written differs for an unknown user, and its time must not show.
      const [isSlow] = await Promise.all([this.#failed(attempt), sleep(FAILURE_MS)])
      if (isSlow) await sleep(SLOW_MS)
      throw new AdminError('unauthorized', 'the username or the password is wrong')
    }
    const { password_hash: _, ...shown } = user
    const betterHash = isOutdated ? await passwords.hash(password) : undefined
    return { token: await this.#begin(user, ipAddress, betterHash), user: shown }
  }

  /**
   * Asks for the password before a change that would turn a stolen session into a stolen account. Wrong passwords
   * count as failed logins.
   * @throws AdminError forbidden, rate_limited
   */
  async requirePassword({ username, ipAddress = '' }: SignedIn, password: string): Promise<void> {
    const { db, passwords } = this.#options
    const user = await findUserForLogin(db, username)
    const attempt = { user, username, ipAddress }
    await requireFree(db, subjectsOf(attempt))
    const { matches } = await passwords.verify(user?.password_hash, password, 'known')
    await requireFree(db, subjectsOf(attempt))
    if (matches) return
    await this.#failed(attempt)
    throw new AdminError('forbidden', 'the current password is wrong')
  }

  /** @returns undefined when the token is not, or no longer, good */
  async authenticate(token: string, ipAddress: string): Promise<SignedIn | undefined> {
    if (token.startsWith(API_TOKEN_PREFIX)) {
      if (!API_TOKEN.test(token)) return undefined
      const found = await findApiToken(this.#options.db, hashApiToken(token))
      if (!found) return undefined
      const { user_id, username, role, token_id } = found
      return { userId: user_id, username, role, ipAddress, apiTokenId: token_id }
    }
    const sessionId = await this.#sessionOf(token)
    const author = sessionId === undefined ? null : await findSession(this.#options.db, sessionId)
    if (!author || sessionId === undefined) return undefined
    return { userId: author.user_id, username: author.username, role: author.role, ipAddress, sessionId }
  }

  /** @throws AdminError invalid_request for an API token, which is revoked instead */
  async logout(author: SignedIn): Promise<void> {
    const { sessionId } = author
    if (sessionId === undefined)
      throw new AdminError('invalid_request', 'an API token has no session; revoke it with DELETE /tokens/{id}')
    const { userId, ipAddress } = author
    await this.#options.audit.transaction({ userId, ipAddress }, async (tx, note) => {
      if (!(await deleteSession(tx, sessionId))) throw noLongerGood()
      note('auth.logout')
    })
  }

  /** @returns how many sessions have ended */
  logoutEverywhere(author: SignedIn): Promise<number> {
    return this.#options.audit.transaction(
      author,
      async (tx, note) => {
        const sessions = await deleteSessionsOf(tx, author.userId)
        note('auth.logout', { sessions })
        return sessions
      },
      lockUsers,
    )
  }

  async #begin(user: UserForLogin, ipAddress: string, betterHash: string | undefined): Promise<string> {
    const { audit, tokenExpirySeconds } = this.#options
    const id = uuidv7(Date.now())
    const expiresAt = new Date(Date.now() + tokenExpirySeconds * 1000)
    await audit.transaction(
      { userId: user.id, ipAddress },
      async (tx, note) => {
        // A password that was reset while this one was verified is the one that counts.
        if (!(await lockUserForLogin(tx, user)))
          throw new AdminError('unauthorized', 'the username or the password is wrong')
        if (betterHash !== undefined) await replaceHash(tx, user.id, betterHash)
        await noteLogin(tx, user.id)
        await noteLoginAddress(tx, user.id, countedAddress(ipAddress))
        // Those of the address stay: who has one password could guess another in between.
        await forgetFailures(tx, [usernameSubject(user.username)])
        await insertSession(tx, { id, userId: user.id, ipAddress, expiresAt })
        note('auth.login', { username: user.username })
      },
      holdUsers,
    )
    return new SignJWT({ role: user.role, username: user.username })
      .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
      .setIssuer(ISSUER)
      .setSubject(user.id)
      .setJti(id)
      .setIssuedAt()
      .setExpirationTime(Math.floor(expiresAt.getTime() / 1000))
      .sign(this.#key)
  }

  async #sessionOf(token: string): Promise<string | undefined> {
    try {
      const { payload } = await jwtVerify(token, this.#key, { algorithms: ['HS256'], issuer: ISSUER, typ: 'JWT' })
      return payload.jti !== undefined && isUuid(payload.jti) ? payload.jti : undefined
    } catch (error) {
      if (error instanceof errors.JOSEError) return undefined
      throw error
    }
  }

  /**
   * Locked means locked, with the right password too.
   * @returns whether the user has signed in from the address lately
   */
  async #requireUnlocked(attempt: Attempt): Promise<boolean> {
    const { db } = this.#options
    const { user, ipAddress } = attempt
    // Asked for an unknown user as well, who must cost the same time.
    const isKnown = await isKnownAddress(db, user?.id ?? NOBODY, countedAddress(ipAddress))
    await requireFree(db, isKnown ? [addressSubject(ipAddress)] : subjectsOf(attempt))
    return isKnown
  }

  /** @returns whether the address has failed so often that it is answered slowly */
  async #failed(attempt: Attempt): Promise<boolean> {
    const { audit, db } = this.#options
    const { user, username, ipAddress } = attempt
    await forgetOldFailures(db)
    const [address, name] = subjectsOf(attempt)
    return audit.transaction({ userId: user?.id, ipAddress }, async (tx, note) => {
      const ofAddress = await countFailure(tx, address, MOST_OF_ADDRESS)
      const ofName = await countFailure(tx, name, MOST_OF_USERNAME)
      const locked = [...(ofAddress.locked ? [address] : []), ...(ofName.locked ? [name] : [])]
      await noteFailedLogin(tx, note, { username, userId: user?.id, locked })
      return ofAddress.failures >= MOST_OF_USERNAME
    })
  }
}

interface Attempt {
  user: UserForLogin | null
  /** As it was given. */
  username: string
  ipAddress: string
}

/** By the stored name: all spellings that the database takes for one user share one lock. */
const subjectsOf = ({ user, username, ipAddress }: Attempt): readonly [address: string, name: string] => [
  addressSubject(ipAddress),
  usernameSubject(user?.username ?? username),
]

/** @throws AdminError rate_limited while one of the subjects is locked */
async function requireFree(db: DatabasePool, subjects: readonly string[]): Promise<void> {
  const seconds = await lockedFor(db, subjects)
  if (seconds === 0) return
  throw new AdminError('rate_limited', `too many failed logins; try again in ${seconds} seconds`, {
    retryAfterSeconds: seconds,
  })
}
