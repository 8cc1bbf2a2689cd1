/**
 * Passkeys (WebAuthn Level 3): registered in a session, then a way to sign in, the second factor behind a password, and the
 * proof of a recent sign-in.
 */

import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import type { DatabasePool } from 'slonik'
import { AdminError, requireFound } from '../../domain/admin-error.ts'
import { printable } from '../../shared/lib/terminal.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { findUserForLoginById, lockUsers, type UserForLogin, type UserRow } from '../../store/user-store.ts'
import type { AuditLog, Transaction } from '../audit/audit-log.ts'
import { hasRoomForStranger } from './login-attempts.ts'
import {
  deletePasskey,
  findPasskey,
  insertPasskey,
  listPasskeys,
  notePasskeyUse,
  type PasskeyRow,
  renamePasskey,
} from './passkey-store.ts'
import { NO_PASSWORD } from './passwords.ts'
import { noLongerGood, noteConfirmed, noteMethod } from './sessions.ts'
import type { LoginClient, SignedIn, SignIn } from './sign-in.ts'
import {
  answerOnce,
  type Challenge,
  type Challenges,
  challengeOf,
  hashOf,
  type Purpose,
  type RelyingParty,
  refused,
  registrationOptions,
  requestOptions,
  verifyAssertion,
  verifyRegistration,
} from './webauthn.ts'

export interface PasskeyOptions extends RelyingParty {
  db: DatabasePool
  audit: AuditLog
  signIn: Pick<SignIn, 'begin'>
  challenges: Challenges
  /** The last one cannot be removed. */
  isRequired: boolean
}

const MOST_PASSKEYS = 20
const MOST_OF_A_REASON = 200

/** A reset of the password in between makes the proof of the old one worthless. */
const boundTo = ({ password_hash }: UserForLogin) => hashOf(password_hash).toString('base64url')

export class Passkeys {
  readonly #options: PasskeyOptions

  constructor(options: PasskeyOptions) {
    this.#options = options
  }

  /** Where browsers have them: passkeys are bound to it. */
  get origin(): string {
    return this.#options.origin
  }

  /** For a browser that does not say who is there. */
  signInOptions() {
    return this.#requestOptions({ purpose: 'sign_in' }, [])
  }

  /** Behind a password that was right. @returns undefined for a user without a passkey */
  async secondFactorOptions(user: UserForLogin) {
    const known = await listPasskeys(this.#options.db, user.id)
    const wanted = { purpose: 'second_factor' as const, userId: user.id, bound: boundTo(user) }
    return known.length === 0 ? undefined : this.#requestOptions(wanted, known)
  }

  /** @returns undefined for a user without a passkey */
  async confirmOptions({ userId, sessionId = '' }: SignedIn) {
    const known = await listPasskeys(this.#options.db, userId)
    return known.length === 0
      ? undefined
      : this.#requestOptions({ purpose: 'confirm', userId, bound: sessionId }, known)
  }

  /** @throws AdminError passkey_refused */
  async signIn(response: AuthenticationResponseJSON, client: LoginClient): Promise<{ token: string; user: UserRow }> {
    try {
      return await this.#signIn(response, client)
    } catch (error) {
      if (error instanceof AdminError && error.code === 'passkey_refused')
        await this.#noteRefusal(response.id, error, client)
      throw error
    }
  }

  /** Records the refusal of a known passkey: its counter may show a copy. Strangers cannot fill the log with unknown ones. */
  async #noteRefusal(credentialId: string, { cause }: AdminError, { ipAddress }: LoginClient): Promise<void> {
    const { db, audit } = this.#options
    const passkey = await findPasskey(db, credentialId)
    const user = passkey && (await findUserForLoginById(db, passkey.user_id))
    if (!passkey || !user) return
    const reason = cause instanceof Error ? printable(cause.message).slice(0, MOST_OF_A_REASON) : undefined
    const details = { username: user.username, by: 'passkey', passkey_id: passkey.id, reason }
    await audit.transaction({ userId: user.id, ipAddress }, async (tx, note) => {
      if (await hasRoomForStranger(tx)) note('auth.login_failed', details, user.id)
    })
  }

  async #signIn(response: AuthenticationResponseJSON, client: LoginClient): Promise<{ token: string; user: UserRow }> {
    const { db, signIn } = this.#options
    const { passkey, challenge, text, counter } = await this.#verified(response, ['sign_in', 'second_factor'])
    const user = await findUserForLoginById(db, passkey.user_id)
    if (!user?.enabled) throw refused()
    const isSecond = challenge.purpose === 'second_factor'
    if (isSecond && (challenge.userId !== user.id || challenge.bound !== boundTo(user))) throw refused()
    const { password_hash: _, ...shown } = user
    const methods = isSecond ? (['password', 'passkey'] as const) : (['passkey'] as const)
    const once = (tx: Transaction) => use(tx, { passkey, challenge, text, counter })
    return { token: await signIn.begin(user, { ...client, methods, once }), user: shown }
  }

  /** The sign-in of the session is recent again. @throws AdminError passkey_refused */
  async confirm(author: SignedIn, response: AuthenticationResponseJSON): Promise<void> {
    const { sessionId = '', userId } = author
    const found = await this.#verified(response, ['confirm'])
    const { userId: wanted, bound } = found.challenge
    if (wanted !== userId || bound !== sessionId || found.passkey.user_id !== userId) throw refused()
    await this.#options.audit.transaction(author, async (tx, note) => {
      await use(tx, found)
      await noteConfirmed(tx, sessionId)
      note('auth.confirm', { by: 'passkey' })
    })
  }

  /** @throws AdminError conflict for one too many, and for who has no password */
  async registrationOptions({ userId, sessionId }: SignedIn) {
    const { db, challenges } = this.#options
    const user = await findUserForLoginById(db, userId)
    if (!user) throw noLongerGood()
    if (user.password_hash === NO_PASSWORD)
      throw new AdminError('conflict', 'your provider signs you in; a passkey would outlive what it says about you')
    const known = await listPasskeys(db, userId)
    requireRoom(known)
    const challenge = challenges.make({ purpose: 'register', userId, bound: sessionId })
    return registrationOptions(this.#options, user, challenge, known)
  }

  /** @throws AdminError passkey_refused; conflict for a credential that is known, and for one too many */
  async register(author: SignedIn, name: string, response: RegistrationResponseJSON): Promise<PasskeyRow> {
    const { userId, sessionId = '' } = author
    const { text, challenge } = await this.#opened(response, ['register'])
    if (challenge.userId !== userId || challenge.bound !== sessionId) throw refused()
    const { id, publicKey, counter, transports = [] } = await verifyRegistration(this.#options, response, text)
    return this.#options.audit.transaction(
      author,
      async (tx, note) => {
        await answerOnce(tx, text, challenge)
        requireRoom(await listPasskeys(tx, userId))
        const passkey = await insertPasskey(tx, {
          id: uuidv7(Date.now()),
          user_id: userId,
          credential_id: id,
          public_key: Buffer.from(publicKey),
          counter,
          transports,
          name,
        })
        if (!passkey) throw new AdminError('conflict', 'this passkey is registered already')
        await noteMethod(tx, sessionId, 'passkey')
        note('user.add_passkey', { passkey_id: passkey.id, name }, userId)
        return passkey
      },
      lockUsers,
    )
  }

  /** @throws AdminError not_found */
  rename(author: SignedIn, id: string, name: string): Promise<PasskeyRow> {
    return this.#options.audit.transaction(author, async (tx, note) => {
      const passkey = requireFound(await renamePasskey(tx, author.userId, id, name), 'passkey')
      note('user.rename_passkey', { passkey_id: id, name }, author.userId)
      return passkey
    })
  }

  /** @throws AdminError not_found; conflict for the last one where a second factor is required */
  async remove(author: SignedIn, id: string): Promise<void> {
    const { audit, isRequired } = this.#options
    await audit.transaction(
      author,
      async (tx, note) => {
        const removed = requireFound(await deletePasskey(tx, author.userId, id), 'passkey')
        if (isRequired && (await listPasskeys(tx, author.userId)).length === 0)
          throw new AdminError(
            'conflict',
            'this is your last passkey, and a second factor is required; add another one first',
          )
        note('user.remove_passkey', { passkey_id: id, name: removed.name }, author.userId)
      },
      lockUsers,
    )
  }

  #requestOptions(wanted: Pick<Challenge, 'purpose' | 'userId' | 'bound'>, known: readonly PasskeyRow[]) {
    return requestOptions(this.#options, this.#options.challenges.make(wanted), known)
  }

  async #verified(response: AuthenticationResponseJSON, purposes: readonly Purpose[]): Promise<Verified> {
    const { text, challenge } = await this.#opened(response, purposes)
    const passkey = await findPasskey(this.#options.db, response.id)
    if (!passkey) throw refused()
    const counter = await verifyAssertion(this.#options, response, text, passkey)
    // WebAuthn §7.2 step 6: it has to be the user's, and says whose it is where nobody has said that before.
    const { userHandle } = response.response
    const isOwner = userHandle
      ? Buffer.from(userHandle, 'base64url').toString() === passkey.user_id
      : challenge.purpose !== 'sign_in'
    if (!isOwner) throw refused()
    return { passkey, challenge, text, counter }
  }

  async #opened(response: AuthenticationResponseJSON | RegistrationResponseJSON, purposes: readonly Purpose[]) {
    const text = await challengeOf(response)
    const challenge = this.#options.challenges.open(text, purposes)
    if (!challenge) throw refused()
    return { text, challenge }
  }
}

interface Verified {
  passkey: PasskeyRow
  challenge: Challenge
  /** The challenge as it came. */
  text: string
  counter: number
}

function requireRoom(known: readonly PasskeyRow[]): void {
  if (known.length < MOST_PASSKEYS) return
  throw new AdminError('conflict', `a user may have at most ${MOST_PASSKEYS} passkeys; remove one first`)
}

/** Of two answers to one challenge, or with one counter, one counts. */
async function use(tx: Transaction, { passkey, challenge, text, counter }: Verified): Promise<void> {
  await answerOnce(tx, text, challenge)
  if (!(await notePasskeyUse(tx, passkey.id, counter))) throw refused()
}
