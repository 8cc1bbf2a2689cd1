/**
 * Passkeys (WebAuthn Level 3): registered in a session, then a way to sign in, the second factor behind a password, and the
 * proof of a recent sign-in. User verification is required, so that one passkey is two factors.
 */

import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import type { DatabasePool } from 'slonik'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { findUserForLoginById, type UserForLogin, type UserRow } from '../../store/user-store.ts'
import type { AuditLog, Transaction } from '../audit/audit-log.ts'
import { answerOnce, type Challenge, type Challenges, hashOf, type Purpose } from './challenges.ts'
import {
  deletePasskey,
  findPasskey,
  insertPasskey,
  listPasskeys,
  notePasskeyUse,
  type PasskeyRow,
  renamePasskey,
} from './passkey-store.ts'
import { noteConfirmed, noteMethod } from './sessions.ts'
import type { LoginClient, SignedIn, SignIn } from './sign-in.ts'
import { requireUser } from './users.ts'

/** Loaded when the first passkey comes: commands have no use for it. */
const webauthn = () => import('@simplewebauthn/server')

export interface PasskeyOptions {
  db: DatabasePool
  audit: AuditLog
  signIn: Pick<SignIn, 'begin'>
  challenges: Challenges
  /** Of the console: what the browser must have been at. */
  origin: string
  /** The host name of the origin, to which passkeys are bound. */
  rpId: string
  /** The last one cannot be removed. */
  isRequired: boolean
}

/** COSE (RFC 9053): EdDSA, ES256, RS256. */
const ALGORITHMS = [-8, -7, -257]
const MOST_PASSKEYS = 20
const TIMEOUT_MS = 5 * 60_000

const refused = () => new AdminError('unauthorized', 'the passkey was not accepted; begin again')

/** A reset of the password in between makes the proof of the old one worthless. */
const boundTo = ({ password_hash }: UserForLogin) => hashOf(password_hash).toString('base64url')

export class Passkeys {
  readonly #options: PasskeyOptions

  constructor(options: PasskeyOptions) {
    this.#options = options
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

  /** @throws AdminError unauthorized */
  async signIn(response: AuthenticationResponseJSON, client: LoginClient): Promise<{ token: string; user: UserRow }> {
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

  /** The sign-in of the session is recent again. @throws AdminError unauthorized */
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

  async registrationOptions({ userId, sessionId }: SignedIn) {
    const { db, challenges, rpId } = this.#options
    const [{ username }, known] = [await requireUser(db, userId), await listPasskeys(db, userId)]
    if (known.length >= MOST_PASSKEYS)
      throw new AdminError('conflict', `a user may have at most ${MOST_PASSKEYS} passkeys; remove one first`)
    const { generateRegistrationOptions } = await webauthn()
    return generateRegistrationOptions({
      rpID: rpId,
      rpName: 'Chancery',
      userName: username,
      userID: new Uint8Array(Buffer.from(userId)),
      challenge: challenges.make({ purpose: 'register', userId, bound: sessionId }),
      timeout: TIMEOUT_MS,
      attestationType: 'none',
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
      supportedAlgorithmIDs: ALGORITHMS,
      excludeCredentials: known.map(({ credential_id: id }) => ({ id })),
    })
  }

  /** @throws AdminError unauthorized; conflict for a credential that is known */
  async register(author: SignedIn, name: string, response: RegistrationResponseJSON): Promise<PasskeyRow> {
    const { audit, challenges, origin, rpId } = this.#options
    const { userId, sessionId = '' } = author
    let challenge: Challenge | undefined
    let text = ''
    const { verifyRegistrationResponse } = await webauthn()
    const { registrationInfo } = await verifyRegistrationResponse({
      response,
      expectedOrigin: origin,
      expectedRPID: rpId,
      requireUserVerification: true,
      supportedAlgorithmIDs: ALGORITHMS,
      expectedChallenge: (sent) => {
        text = sent
        challenge = challenges.open(sent, ['register'])
        return challenge?.userId === userId && challenge.bound === sessionId
      },
    }).catch((cause: unknown) => {
      throw new AdminError('unauthorized', 'the passkey was not accepted; begin again', { cause })
    })
    if (!registrationInfo || !challenge) throw refused()
    const { id, publicKey, counter, transports = [] } = registrationInfo.credential
    const made = {
      id: uuidv7(Date.now()),
      user_id: userId,
      credential_id: id,
      public_key: Buffer.from(publicKey),
      counter,
    }
    const answered = challenge
    return audit.transaction(author, async (tx, note) => {
      await answerOnce(tx, text, answered)
      const passkey = await insertPasskey(tx, { ...made, transports: transports.slice(0, 10), name })
      if (!passkey) throw new AdminError('conflict', 'this passkey is registered already')
      await noteMethod(tx, sessionId, 'passkey')
      note('user.add_passkey', { passkey_id: passkey.id, name }, userId)
      return passkey
    })
  }

  /** @throws AdminError not_found */
  rename(author: SignedIn, id: string, name: string): Promise<PasskeyRow> {
    return this.#options.audit.transaction(author, async (tx, note) => {
      const passkey = await renamePasskey(tx, author.userId, id, name)
      if (!passkey) throw notFound('passkey')
      note('user.rename_passkey', { passkey_id: id, name }, author.userId)
      return passkey
    })
  }

  /** @throws AdminError not_found; conflict for the last one where a second factor is required */
  async remove(author: SignedIn, id: string): Promise<void> {
    const { audit, isRequired } = this.#options
    await audit.transaction(author, async (tx, note) => {
      const removed = await deletePasskey(tx, author.userId, id)
      if (!removed) throw notFound('passkey')
      if (isRequired && (await listPasskeys(tx, author.userId)).length === 0)
        throw new AdminError(
          'conflict',
          'this is your last passkey, and a second factor is required; add another one first',
        )
      note('user.remove_passkey', { passkey_id: id, name: removed.name }, author.userId)
    })
  }

  async #requestOptions(wanted: { purpose: Purpose; userId?: string; bound?: string }, known: readonly PasskeyRow[]) {
    const { challenges, rpId } = this.#options
    const { generateAuthenticationOptions } = await webauthn()
    return generateAuthenticationOptions({
      rpID: rpId,
      challenge: challenges.make(wanted),
      timeout: TIMEOUT_MS,
      userVerification: 'required',
      allowCredentials: known.map(({ credential_id: id }) => ({ id })),
    })
  }

  async #verified(response: AuthenticationResponseJSON, purposes: readonly Purpose[]): Promise<Verified> {
    const { db, challenges, origin, rpId } = this.#options
    const passkey = await findPasskey(db, response.id)
    if (!passkey) throw refused()
    let challenge: Challenge | undefined
    let text = ''
    const { verifyAuthenticationResponse } = await webauthn()
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response,
      expectedOrigin: origin,
      expectedRPID: rpId,
      requireUserVerification: true,
      credential: {
        id: passkey.credential_id,
        publicKey: new Uint8Array(passkey.public_key),
        counter: passkey.counter,
      },
      expectedChallenge: (sent) => {
        text = sent
        challenge = challenges.open(sent, purposes)
        return challenge !== undefined
      },
    }).catch((cause: unknown) => {
      throw new AdminError('unauthorized', 'the passkey was not accepted; begin again', { cause })
    })
    const { userHandle } = response.response
    // WebAuthn §7.2 step 6: who the authenticator means has to be who has registered the passkey.
    const isOwner = userHandle === undefined || Buffer.from(userHandle, 'base64url').toString() === passkey.user_id
    if (!verified || !challenge || !isOwner) throw refused()
    return { passkey, challenge, text, counter: authenticationInfo.newCounter }
  }
}

interface Verified {
  passkey: PasskeyRow
  challenge: Challenge
  /** The challenge as it came. */
  text: string
  counter: number
}

/** Of two answers to one challenge, or with one counter, one counts. */
async function use(tx: Transaction, { passkey, challenge, text, counter }: Verified): Promise<void> {
  await answerOnce(tx, text, challenge)
  if (!(await notePasskeyUse(tx, passkey.id, counter))) throw refused()
}
