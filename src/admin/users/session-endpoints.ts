/** `/me` and `/users/{user_id}/sessions`: own profile and password, and sessions with their end. */

import * as z from 'zod/v4'
import { requireFound } from '../../domain/admin-error.ts'
import { endpoint, endpointGroup, withoutBody } from '../admin-endpoint.ts'
import { userAct } from '../approvals/acts.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { limitOf, limitParameter } from '../pages.ts'
import { password, uuid, withTimes } from '../schemas.ts'
import { endSessionOf, listSessions, Session, type SessionRow } from './sessions.ts'
import type { SignedIn } from './sign-in.ts'
import { MAIL, User, userBody } from './user-body.ts'
import { changeUser, choosePassword, requireUser } from './users.ts'

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
    summary: 'Lists the sessions of the user, the newest first.',
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
    summary: 'Ends a session of the user, on every instance.',
    params: ofUser.pick({ session_id: true }),
    reply: { status: 204 },
    audit: 'user.end_session',
    handle: ({ params, author }, { audit }) => withoutBody(endSession(audit, author, author.userId, params.session_id)),
  }),
  updateMe: endpoint({
    route: 'PATCH /me',
    permission: 'use_session',
    needsSession: true,
    summary: 'Changes the mail address of the user.',
    body: z.strictObject({ email: MAIL }),
    reply: { status: 200, schema: User },
    audit: 'user.update',
    // Mails that warn of a thief go there, and two users with one address are one person.
    recentSignIn: true,
    approval: ({ body, author }, context) => userAct('Change the user', author.userId, body, context),
    handle: async ({ body, author }, { audit }) => ({
      body: userBody(await changeUser(audit, author, author.userId, body)),
    }),
  }),
  changeMyPassword: endpoint({
    route: 'POST /me/password',
    permission: 'use_session',
    needsSession: true,
    summary: 'Sets a password of the user’s own choice and ends the other sessions; API tokens stay.',
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
    summary: 'Lists the sessions of a user, the newest first.',
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
    summary: 'Ends a session of a user, on every instance.',
    params: ofUser,
    reply: { status: 204 },
    audit: 'user.end_session',
    handle: ({ params, author }, { audit }) =>
      withoutBody(endSession(audit, author, params.user_id, params.session_id)),
  }),
})
