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
import type { Actor, SessionMethod } from '../../domain/administrator.ts'
import { SLOW_MS, secondFactorSubject, usernameSubject } from '../../domain/rate-limit.ts'
import { countedAddress } from '../../shared/lib/ip-address.ts'
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
import type { AuditLog, Transaction } from '../audit/audit-log.ts'
import {
  forgetFailures,
  noteFailure,
  noteLoginAddress,
  noteSecondFactorAsked,
  requireNoLock,
  requireUnlocked,
} from './login-attempts.ts'
import { NO_PASSWORD, type PasswordHasher } from './passwords.ts'
import {
  deleteSession,
  deleteSessionsOf,
  findApiToken,
  findSession,
  insertSession,
  isRecentlyConfirmed,
  noLongerGood,
  noteConfirmed,
} from './sessions.ts'

interface SignInOptions {
  db: DatabasePool
  audit: AuditLog
  passwords: PasswordHasher
  tokenSecret: string
  tokenExpirySeconds: number
  /** How long a sign-in counts as recent; 0 for always. */
  recentSignInSeconds: number
  /** A password alone is not enough. */
  requireSecondFactor: boolean
}

/** It shows that the user of a session is still the same person. */
interface Proof {
  password: string
}

/** The author of a request, by a session or an API token. */
export type SignedIn = Actor & {
  userId: string
  /** A second factor is required, and this session has shown none: it may only enrol one. */
  isUnproven?: true
}

/** A user who is known by the password, and has to show a passkey, too. */
interface HalfSignedIn {
  half: UserForLogin
}

/** From where somebody signs in. */
export interface LoginClient {
  ipAddress: string
  userAgent?: string | undefined
}

/** How a user was recognized. */
interface Recognition extends LoginClient {
  methods: readonly SessionMethod[]
  /** Replaces a hash of an older kind. */
  betterHash?: string | undefined
  /** Null when it is not known; now when absent. */
  authenticatedAt?: Date | null
  /** In the same transaction: what counts only once. */
  once?: (tx: Transaction) => Promise<void>
}

const ISSUER = 'chancery'
/** An API token: this, then 256 random bits in base64url. */
export const API_TOKEN_PREFIX = 'chancery_'

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

  /**
   * @param hasPasskey whether the user has to show one, too
   * @throws AdminError unauthorized, rate_limited
   */
  async login(
    username: string,
    password: string,
    client: LoginClient,
    hasPasskey: (user: UserForLogin) => Promise<boolean>,
  ): Promise<{ token: string; user: UserRow } | HalfSignedIn> {
    const { db, audit, passwords } = this.#options
    const { ipAddress } = client
    const user = await findUserForLogin(db, username)
    const attempt = { user, username, ipAddress }
    const isKnown = await requireUnlocked(db, attempt)
    const caller = isKnown ? 'known' : 'stranger'
    const { matches, isOutdated } = await passwords.verify(user?.password_hash, password, caller)
    // Guesses sent at once may pass the first check together; behind the lock none counts, right or wrong.
    await requireUnlocked(db, attempt)
    if (!user || !matches || !user.enabled) {
      // Writing takes another time for an unknown user, and that must not show.
      const [isSlow] = await Promise.all([noteFailure(db, audit, attempt), sleep(FAILURE_MS)])
      if (isSlow) await sleep(SLOW_MS)
      throw new AdminError('unauthorized', 'the username or the password is wrong')
    }
    if (await hasPasskey(user)) {
      await noteSecondFactorAsked(audit, user, ipAddress)
      return { half: user }
    }
    const { password_hash: _, ...shown } = user
    const betterHash = isOutdated ? await passwords.hash(password) : undefined
    return { token: await this.begin(user, { ...client, methods: ['password'], betterHash }), user: shown }
  }

  /**
   * Asks for the password before a change that would turn a stolen session into a stolen account. Wrong passwords
   * count as failed logins.
   * @throws AdminError forbidden, rate_limited
   */
  async requirePassword({ username, ipAddress = '' }: SignedIn, password: string): Promise<void> {
    const { db, audit, passwords } = this.#options
    const user = await findUserForLogin(db, username)
    const attempt = { user, username, ipAddress }
    await requireNoLock(db, attempt)
    const { matches } = await passwords.verify(user?.password_hash, password, 'known')
    await requireNoLock(db, attempt)
    if (matches) return
    await noteFailure(db, audit, attempt)
    throw new AdminError('forbidden', 'the current password is wrong')
  }

  /** The password, or a recent proof of a user who has one: by a provider alone nobody gets one. @throws AdminError */
  async requireOwner(author: SignedIn, password: string | undefined): Promise<void> {
    if (password !== undefined) return this.requirePassword(author, password)
    const { db, recentSignInSeconds: seconds } = this.#options
    const hasPassword = (await findUserForLogin(db, author.username))?.password_hash !== NO_PASSWORD
    if (hasPassword && author.sessionId && (await isRecentlyConfirmed(db, author.sessionId, seconds))) return
    const recent =
      seconds === 0 ? '' : `, or confirm that it is you (POST /auth/confirm) at most ${seconds} seconds before`
    throw new AdminError('forbidden', `a new password needs current_password${recent}`)
  }

  /** A recent sign-in counts for a session; an API token has none, and is bounded by what it may do. @throws AdminError */
  async requireRecent({ sessionId }: SignedIn): Promise<void> {
    const { db, recentSignInSeconds: seconds } = this.#options
    if (seconds === 0 || sessionId === undefined || (await isRecentlyConfirmed(db, sessionId, seconds))) return
    throw new AdminError(
      'sign_in_again',
      `this needs a sign-in within the last ${seconds} seconds: confirm that it is you`,
    )
  }

  /** The sign-in of this session is recent again. @throws AdminError forbidden, rate_limited */
  async confirm(author: SignedIn, { password }: Proof): Promise<void> {
    const { sessionId } = author
    if (sessionId === undefined) throw noLongerGood()
    await this.requirePassword(author, password)
    await this.#options.audit.transaction(author, async (tx, note) => {
      await noteConfirmed(tx, sessionId)
      note('auth.confirm')
    })
  }

  /** @returns undefined when the token is not, or no longer, good */
  async authenticate(token: string, ipAddress: string): Promise<SignedIn | undefined> {
    if (token.startsWith(API_TOKEN_PREFIX)) {
      if (!API_TOKEN.test(token)) return undefined
      const found = await findApiToken(this.#options.db, hashApiToken(token))
      if (!found) return undefined
      const { userId, username, role, scope, tokenId } = found
      return { userId, username, role, scope, ipAddress, apiTokenId: tokenId }
    }
    const sessionId = await this.#sessionOf(token)
    const author = sessionId === undefined ? null : await findSession(this.#options.db, sessionId)
    if (!author || sessionId === undefined) return undefined
    const { user_id: userId, username, role, scope, methods } = author
    const isUnproven = this.#options.requireSecondFactor && methods.every((method) => method === 'password')
    return { userId, username, role, scope, ipAddress, sessionId, ...(isUnproven && { isUnproven }) }
  }

  /**
   * @returns how the user of the session was recognized
   * @throws AdminError invalid_request for an API token, which is revoked instead
   */
  async logout(author: SignedIn): Promise<readonly SessionMethod[]> {
    const { sessionId } = author
    if (sessionId === undefined)
      throw new AdminError('invalid_request', 'an API token has no session; revoke it with DELETE /tokens/{id}')
    const { userId, ipAddress } = author
    return this.#options.audit.transaction({ userId, ipAddress }, async (tx, note) => {
      const methods = await deleteSession(tx, sessionId)
      if (!methods) throw noLongerGood()
      note('auth.logout', undefined, undefined, { session_id: sessionId })
      return methods
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

  /** @returns the token of a new session of a user who was recognized */
  async begin(user: UserForLogin, recognition: Recognition): Promise<string> {
    const { ipAddress, userAgent, methods, betterHash, authenticatedAt = new Date(), once } = recognition
    const { audit, tokenExpirySeconds } = this.#options
    const id = uuidv7(Date.now())
    const issuedAt = Math.floor(Date.now() / 1000)
    const expiresAt = new Date((issuedAt + tokenExpirySeconds) * 1000)
    await audit.transaction(
      { userId: user.id, ipAddress },
      async (tx, note) => {
        // A password that was reset while this one was verified is the one that counts.
        if (!(await lockUserForLogin(tx, user)))
          throw new AdminError('unauthorized', 'the username or the password is wrong')
        await once?.(tx)
        if (betterHash !== undefined) await replaceHash(tx, user.id, betterHash)
        await noteLogin(tx, user.id)
        await noteLoginAddress(tx, user.id, countedAddress(ipAddress))
        // Failures of the address stay: the owner of one password could guess another in between.
        await forgetFailures(tx, [usernameSubject(user.username), secondFactorSubject(user.username)])
        await insertSession(tx, { id, userId: user.id, ipAddress, userAgent, methods, authenticatedAt, expiresAt })
        note('auth.login', { username: user.username, ...(methods[0] !== 'password' && { by: methods.join(' ') }) })
      },
      holdUsers,
    )
    return new SignJWT({ role: user.role, username: user.username })
      .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
      .setIssuer(ISSUER)
      .setSubject(user.id)
      .setJti(id)
      .setIssuedAt(issuedAt)
      .setExpirationTime(expiresAt)
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
}
