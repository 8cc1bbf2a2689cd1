/**
 * Sign-in by OpenID Connect.
 *
 * `state` holds the secrets of one sign-in, sealed, so that strangers fill no table. The database keeps the hash of a
 * `state` that came back: each makes one token request with our secret. `state` also holds the hash of a secret that the
 * browser made. Only the browser that began can finish, so nobody is signed in as somebody else by a link (RFC 9700 §4.7).
 * A code is good once, which the provider sees to (RFC 6749 §4.1.2).
 */

import { createHash, timingSafeEqual } from 'node:crypto'
import type { CommonQueryMethods, DatabasePool } from 'slonik'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import { authenticatedAt, type ClaimRefusal, isSubject, type OidcPerson, personOf } from '../../domain/oidc-claims.ts'
import { isScoped } from '../../domain/permissions.ts'
import { parseJsonObject } from '../../shared/lib/encoding.ts'
import type { SecretBox } from '../../shared/lib/secret-box.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { rowsOf } from '../../store/slonik.ts'
import {
  findUserForLoginById,
  insertUser,
  lockUsers,
  type UserForLogin,
  type UserRow,
  updateUser,
} from '../../store/user-store.ts'
import type { AuditLog, Note, Transaction } from '../audit/audit-log.ts'
import { hasRoomForStranger } from './login-attempts.ts'
import { type Claims, describeFailure, type FlowSecrets, OidcProvider, type OidcSettings } from './oidc-provider.ts'
import { useChallenge } from './passkey-store.ts'
import { NO_PASSWORD } from './passwords.ts'
import { deleteSessionsOf, endAccess } from './sessions.ts'
import type { LoginClient, SignIn } from './sign-in.ts'
import { changesOf, requireAnAdmin } from './users.ts'

export interface OidcOptions {
  settings: OidcSettings
  db: DatabasePool
  audit: AuditLog
  signIn: Pick<SignIn, 'begin'>
  /** Seals `state`. */
  box: SecretBox
  /** Receives why a sign-in failed, which the person does not learn in full; no token or secret. */
  failed(reason: string): void
}

const Flow = z.strictObject({
  nonce: z.string(),
  verifier: z.string(),
  /** SHA-256 of the browser's secret, in base64url. */
  binding: z.string(),
  expiresAt: z.int(),
})
type Flow = z.infer<typeof Flow>

/** A person may have to find a second factor first. */
const FLOW_MS = 10 * 60_000
const STATE_NAME = 'oidc state'

const hashOf = (secret: string | Buffer) => createHash('sha256').update(secret).digest()

export class OidcSignIn {
  readonly #options: OidcOptions
  readonly #provider: OidcProvider

  constructor(options: OidcOptions) {
    this.#options = options
    this.#provider = new OidcProvider(options.settings)
  }

  get name(): string {
    return this.#options.settings.name
  }

  /**
   * @param binding hash of a secret that stays in the browser
   * @param isFresh the user has to prove at the provider anew who it is
   * @returns where the browser goes
   * @throws AdminError unavailable
   */
  async start(secrets: FlowSecrets, binding: string, isFresh: boolean): Promise<string> {
    const flow: Flow = { ...secrets, binding, expiresAt: Date.now() + FLOW_MS }
    const state = this.#options.box.seal(Buffer.from(JSON.stringify(flow)), STATE_NAME).toString('base64url')
    try {
      return await this.#provider.authorizationUrl(state, secrets, isFresh)
    } catch (cause) {
      throw this.#away(cause)
    }
  }

  /**
   * @param query with which the provider sent the browser back
   * @throws AdminError unauthorized with a sentence for the person; conflict, rate_limited
   */
  async finish(query: string, secret: string, client: LoginClient): Promise<{ token: string; user: UserRow }> {
    const claims = await this.#claims(query, secret)
    const person = personOf(claims, this.#options.settings)
    if ('why' in person) {
      await this.#refusePerson(claims, person, client)
      throw new AdminError('unauthorized', person.why)
    }
    const user = await this.#userOf(person, client).catch(async (error: unknown) => {
      if (error instanceof AdminError)
        await this.#refusePerson(claims, { why: error.message, hasNoRole: false }, client)
      throw error
    })
    const { password_hash: _, ...shown } = user
    const recognition = { ...client, methods: ['oidc'] as const, authenticatedAt: authenticatedAt(claims, new Date()) }
    return { token: await this.#options.signIn.begin(user, recognition), user: shown }
  }

  endSessionUrl(): Promise<string | undefined> {
    return this.#provider.endSessionUrl()
  }

  async #claims(query: string, secret: string): Promise<Claims> {
    const sent = new URLSearchParams(query)
    const state = sent.get('state') ?? ''
    const flow = this.#open(state)
    const binding = flow && Buffer.from(flow.binding, 'base64url')
    const leftMs = (flow?.expiresAt ?? 0) - Date.now()
    // A longer one was begun while a clock was ahead.
    if (!flow || !binding || leftMs < 0 || leftMs > 2 * FLOW_MS || !isSame(binding, hashOf(secret)))
      throw new AdminError('unauthorized', 'this sign-in was not begun in this browser, or took too long; begin again')
    const isFirst = await useChallenge(
      this.#options.db,
      hashOf(Buffer.from(state, 'base64url')),
      new Date(flow.expiresAt),
    )
    if (!isFirst) throw new AdminError('unauthorized', 'this sign-in was finished already; begin again')
    try {
      return await this.#provider.claims(query, state, flow)
    } catch (cause) {
      this.#note(cause, [sent.get('code') ?? '', state, flow.nonce, flow.verifier])
      throw new AdminError('unauthorized', 'the provider has not confirmed the sign-in; begin again', { cause })
    }
  }

  #open(state: string): Flow | undefined {
    const plain = this.#options.box.open(Buffer.from(state, 'base64url'), STATE_NAME)
    if (!plain) return undefined
    const parsed = Flow.safeParse(parseJsonObject(plain))
    return parsed.success ? parsed.data : undefined
  }

  #away(cause: unknown): AdminError {
    this.#note(cause, [])
    const message = `${this.name} does not answer as an OpenID Connect provider; sign in with a password, or try again later`
    return new AdminError('unavailable', message, { cause, retryAfterSeconds: 10 })
  }

  #note(cause: unknown, secrets: readonly string[]): void {
    const { failed, settings } = this.#options
    failed(describeFailure(cause, [settings.clientSecret ?? '', ...secrets]))
  }

  /** A person who has lost the groups loses sessions and API tokens, too. Any other claim may be a fault of the provider. */
  async #refusePerson(
    { iss, sub }: Claims,
    { why: reason, hasNoRole }: ClaimRefusal,
    { ipAddress }: LoginClient,
  ): Promise<void> {
    const { db, audit } = this.#options
    const known = isSubject(sub) ? await findUserByIdentity(db, { issuer: String(iss), subject: sub }) : null
    await audit.transaction({ userId: known?.id, ipAddress }, async (tx, note) => {
      const ended_sessions = known && hasNoRole ? await deleteSessionsOf(tx, known.id) : 0
      const revoked_tokens = known && hasNoRole ? await endAccess(tx, known.id) : 0
      // Everybody whom the provider knows may try as often as they like.
      if (ended_sessions + revoked_tokens > 0 || (await hasRoomForStranger(tx)))
        note('auth.login_failed', { username: known?.username, by: 'oidc', reason, ended_sessions, revoked_tokens })
    })
  }

  /** The user with the role that the groups give now; made at the first sign-in. @throws AdminError unauthorized, conflict */
  #userOf(person: OidcPerson, { ipAddress }: LoginClient): Promise<UserForLogin> {
    const { audit } = this.#options
    return audit.transaction(
      { userId: undefined, ipAddress },
      async (tx, note) => {
        const known = await findUserByIdentity(tx, person)
        if (!known) return make(tx, note, person)
        if (!known.enabled) throw new AdminError('unauthorized', 'your user is disabled; ask an administrator')
        await confirmIdentity(tx, person)
        return adapt(tx, note, known, person)
      },
      lockUsers,
    )
  }
}

const isSame = (a: Buffer, b: Buffer) => a.length === b.length && timingSafeEqual(a, b)

async function make(tx: Transaction, note: Note, person: OidcPerson): Promise<UserForLogin> {
  const { username, email, role, scope } = person
  const id = uuidv7(Date.now())
  const made = await insertUser(tx, { id, username, email, role, scope, passwordHash: NO_PASSWORD })
  // A name is never taken over: another person may have it at the provider.
  if (!made)
    throw new AdminError(
      'conflict',
      `there is another user ${JSON.stringify(username)} here; an administrator can rename or delete it`,
    )
  await insertIdentity(tx, person, id)
  note('user.create', { username, role, by: 'oidc', ...(scope.length > 0 && { scope }) }, id)
  return { ...made, password_hash: NO_PASSWORD }
}

/** Groups and mail address may have changed there. The username stays: the audit log and people know the user by it. */
async function adapt(tx: Transaction, note: Note, known: UserForLogin, person: OidcPerson): Promise<UserForLogin> {
  const { password_hash, ...before } = known
  const scope = isScoped(person.role) ? [...person.scope] : []
  const wanted = { ...before, email: person.email, role: person.role, scope }
  const changes = changesOf(before, wanted)
  if (Object.keys(changes).length === 0) return known
  const after = await updateUser(tx, known.id, wanted)
  await requireAnAdmin(tx)
  note('user.update', { ...changes, by: 'oidc' }, known.id)
  return { ...after, password_hash }
}

const None = z.object({})
const UserId = z.object({ user_id: z.string() })

interface Identity {
  issuer: string
  subject: string
}

/** A user who signs in by OpenID Connect has a row in admin_user_identities. */
async function findUserByIdentity(db: CommonQueryMethods, { issuer, subject }: Identity): Promise<UserForLogin | null> {
  const found = await db.maybeOne(rowsOf(UserId)`
    SELECT user_id FROM admin_user_identities WHERE issuer = ${issuer} AND subject = ${subject}`)
  return found && findUserForLoginById(db, found.user_id)
}

/** The provider has just said who it is. */
async function confirmIdentity(tx: CommonQueryMethods, { issuer, subject }: Identity): Promise<void> {
  await tx.query(rowsOf(None)`
    UPDATE admin_user_identities SET confirmed_at = now() WHERE issuer = ${issuer} AND subject = ${subject}`)
}

async function insertIdentity(tx: CommonQueryMethods, { issuer, subject }: Identity, userId: string): Promise<void> {
  await tx.query(rowsOf(None)`
    INSERT INTO admin_user_identities (issuer, subject, user_id) VALUES (${issuer}, ${subject}, ${userId})`)
}
