/**
 * `/auth/methods` and `/auth/oidc`: the ways to sign in, and that by OpenID Connect. `/me` and `/users/{user_id}/sessions`: own
 * profile and password, and sessions with their end.
 */

import { randomBytes } from 'node:crypto'
import * as z from 'zod/v4'
import { AdminError, requireFound } from '../../domain/admin-error.ts'
import { endpoint, endpointGroup, withoutBody } from '../admin-endpoint.ts'
import { userAct } from '../approvals/acts.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import type { AdminContext } from '../context.ts'
import { limitOf, limitParameter } from '../pages.ts'
import { password, text, uuid, withTimes } from '../schemas.ts'
import { endSessionOf, listSessions, Session, type SessionRow } from './sessions.ts'
import type { SignedIn } from './sign-in.ts'
import { changeUser, choosePassword, MAIL, requireUser, User } from './users.ts'

const secret = () =>
  text(43, 'must be 32 bytes in base64url').regex(/^[\w-]{43}$/, { error: 'must be 32 bytes in base64url' })

/** RFC 7636 §4.1: 43 characters of 32 random bytes. */
const draw = () => randomBytes(32).toString('base64url')

/** RFC 6749 bounds no code. The page that gets the query in its address has 16 KiB for the head of a request. */
const MOST_OF_A_QUERY = 14_000

function requireOidc({ oidc }: AdminContext) {
  return oidc ?? Promise.reject(new AdminError('not_found', 'sign-in by OpenID Connect is not configured'))
}

export const OIDC = endpointGroup('Sessions', {
  getSignInMethods: endpoint({
    route: 'GET /auth/methods',
    permission: 'none',
    reply: {
      status: 200,
      schema: z.strictObject({
        oidc: z
          .strictObject({ name: z.string() })
          .nullable()
          .meta({ description: 'Null where no OpenID Connect provider is configured.' }),
        passkeys: z.boolean().meta({ description: 'False where the console is at an address, or without https.' }),
        passkey_origin: z.string().nullable().meta({ description: 'Of the console; they work at no other one.' }),
      }),
    },
    handle: async (_request, { oidc, passkeys }) => ({
      body: {
        oidc: oidc ? { name: oidc.name } : null,
        passkeys: passkeys !== undefined,
        passkey_origin: passkeys?.origin ?? null,
      },
    }),
  }),
  startOidc: endpoint({
    route: 'POST /auth/oidc/start',
    permission: 'none',
    asksProvider: true,
    body: z.strictObject({
      binding: secret().meta({ description: 'SHA-256 of the secret that `/auth/oidc/finish` gets, in base64url.' }),
      fresh: z.boolean().default(false).meta({ description: 'The provider asks the user to sign in there anew.' }),
    }),
    reply: { status: 200, schema: z.strictObject({ url: z.string() }) },
    errors: ['not_found', 'unavailable'],
    async handle({ body }, context) {
      const oidc = await requireOidc(context)
      const secrets = { nonce: draw(), verifier: draw() }
      return { body: { url: await oidc.start(secrets, body.binding, body.fresh) } }
    },
  }),
  finishOidc: endpoint({
    route: 'POST /auth/oidc/finish',
    permission: 'none',
    asksProvider: true,
    body: z.strictObject({
      query: z.string().max(MOST_OF_A_QUERY).meta({ description: 'Of the address, as it came.' }),
      secret: secret(),
    }),
    reply: { status: 200, schema: z.strictObject({ token: z.string(), user: User }) },
    errors: ['not_found', 'unauthorized', 'conflict', 'rate_limited'],
    audit: 'auth.login',
    async handle({ body, address, userAgent }, context) {
      const oidc = await requireOidc(context)
      const { token, user } = await oidc.finish(body.query, body.secret, { ipAddress: address, userAgent })
      return { body: { token, user: withTimes(user) } }
    },
  }),
})

const sessionBody = (row: SessionRow, { sessionId }: SignedIn): z.input<typeof Session> => ({
  ...withTimes(row),
  is_current: row.id === sessionId,
})

const limit = z.strictObject({ limit: limitParameter() })
const ofUser = z.strictObject({ user_id: uuid(), session_id: uuid() })

/** @throws AdminError not_found */
function endSession(audit: AuditLog, author: SignedIn, userId: string, id: string): Promise<void> {
  return audit.transaction(author, async (tx, note) => {
    requireFound(await endSessionOf(tx, userId, id), 'session')
    note('user.end_session', { session_id: id }, userId)
  })
}

export const SESSIONS = endpointGroup('Sessions', {
  listMySessions: endpoint({
    route: 'GET /me/sessions',
    enrols: true,
    permission: 'use_session',
    needsSession: true,
    query: limit,
    reply: { status: 200, schema: z.array(Session) },
    handle: async ({ query, author }, { db, pages }) => ({
      body: (await listSessions(db, author.userId, limitOf(query.limit, pages))).map((row) => sessionBody(row, author)),
    }),
  }),
  endMySession: endpoint({
    route: 'DELETE /me/sessions/{session_id}',
    permission: 'use_session',
    needsSession: true,
    params: ofUser.pick({ session_id: true }),
    reply: { status: 204 },
    audit: 'user.end_session',
    handle: ({ params, author }, { audit }) => withoutBody(endSession(audit, author, author.userId, params.session_id)),
  }),
  updateMe: endpoint({
    route: 'PATCH /me',
    permission: 'use_session',
    needsSession: true,
    body: z.strictObject({ email: MAIL }),
    reply: { status: 200, schema: User },
    audit: 'user.update',
    // Mails that warn of a thief go there, and two users with one address are one person.
    recentSignIn: true,
    approval: ({ body, author }, context) => userAct('Change the user', author.userId, body, context),
    handle: async ({ body, author }, { audit }) => ({
      body: withTimes(await changeUser(audit, author, author.userId, body)),
    }),
  }),
  changeMyPassword: endpoint({
    route: 'POST /me/password',
    permission: 'use_session',
    needsSession: true,
    body: z.strictObject({ current_password: password(), new_password: password() }),
    reply: { status: 200, schema: z.strictObject({ ended_sessions: z.int() }) },
    errors: ['forbidden', 'rate_limited'],
    audit: 'user.change_password',
    async handle({ body, author }, context) {
      const { current_password: current, new_password: chosen } = body
      const user = await requireUser(context.db, author.userId)
      await context.signIn.requirePassword(author, current)
      return { body: { ended_sessions: await choosePassword(context, author, user, chosen) } }
    },
  }),
  listSessionsOfUser: endpoint({
    route: 'GET /users/{user_id}/sessions',
    permission: 'administer',
    params: ofUser.pick({ user_id: true }),
    query: limit,
    reply: { status: 200, schema: z.array(Session) },
    async handle({ params, query, author }, { db, pages }) {
      const { id } = await requireUser(db, params.user_id)
      const rows = await listSessions(db, id, limitOf(query.limit, pages))
      return { body: rows.map((row) => sessionBody(row, author)) }
    },
  }),
  endSessionOfUser: endpoint({
    route: 'DELETE /users/{user_id}/sessions/{session_id}',
    permission: 'administer',
    params: ofUser,
    reply: { status: 204 },
    audit: 'user.end_session',
    handle: ({ params, author }, { audit }) =>
      withoutBody(endSession(audit, author, params.user_id, params.session_id)),
  }),
})
