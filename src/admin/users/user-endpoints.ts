/** `/auth`, `/users` and `/me`: administrators, and how they sign in. */

import { isIP } from 'node:net'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import { ROLES } from '../../domain/administrator.ts'
import { SCOPE_RULE } from '../../domain/permissions.ts'
import { pagesOfUsers } from '../../store/user-store.ts'
import { endpoint, endpointGroup, withoutBody } from '../admin-endpoint.ts'
import { newUserAct, userAct } from '../approvals/acts.ts'
import { placeParameters, readByCursor } from '../pages.ts'
import { line, password, tagList, text, uuid, whenSound, withTimes } from '../schemas.ts'
import { assertion, ceremonyOptions, requirePasskeys } from './passkey-endpoints.ts'
import { listPasskeys } from './passkey-store.ts'
import {
  changeUser,
  createUser,
  MAIL,
  removeUser,
  requireUser,
  resetPassword,
  USERNAME,
  User,
  unlockAddress,
  unlockUser,
} from './users.ts'

const UserWithPassword = z
  .strictObject({ ...User.shape, password: z.string().meta({ description: 'Shown once; it cannot be read again.' }) })
  .meta({ id: 'UserWithPassword' })

export const SESSION = endpointGroup('Sessions', {
  login: endpoint({
    route: 'POST /auth/login',
    permission: 'none',
    body: z.strictObject({
      username: z
        .string()
        .min(1)
        .max(128)
        .regex(/^\P{Cc}+$/u, { error: 'must have no control characters' }),
      password: password(),
    }),
    reply: {
      status: 200,
      orStatus: 202,
      schema: z.union([
        z.strictObject({ token: z.string(), user: User }),
        z
          .strictObject({ second_factor: ceremonyOptions() })
          .meta({ description: 'The user has a passkey, which goes to `POST /auth/passkey`.' }),
      ]),
    },
    errors: ['unauthorized', 'rate_limited'],
    audit: 'auth.login',
    async handle({ body, address, userAgent }, { db, signIn, passkeys }) {
      const client = { ipAddress: address, userAgent }
      // Without the console's address no passkey could be shown: a user who has one stays out.
      const hasPasskey = async ({ id }: { id: string }) => (await listPasskeys(db, id)).length > 0
      const found = await signIn.login(body.username, body.password, client, hasPasskey)
      if ('token' in found) return { body: { token: found.token, user: withTimes(found.user) } }
      const options = await (await requirePasskeys({ passkeys })).secondFactorOptions(found.half)
      if (!options) throw new AdminError('unauthorized', 'your passkeys have just been removed; sign in again')
      return { status: 202, body: { second_factor: { ...options } } }
    },
  }),
  logout: endpoint({
    route: 'POST /auth/logout',
    enrols: true,
    permission: 'use_session',
    reply: {
      status: 200,
      schema: z.strictObject({
        status: z.literal('logged_out'),
        end_session_url: z.string().optional().meta({ description: 'Where the session at the OpenID provider ends.' }),
      }),
    },
    audit: 'auth.logout',
    async handle({ author }, { signIn, oidc }) {
      const methods = await signIn.logout(author)
      const url = methods.includes('oidc') ? await oidc?.endSessionUrl() : undefined
      return { body: { status: 'logged_out' as const, ...(url !== undefined && { end_session_url: url }) } }
    },
  }),
  confirmSignIn: endpoint({
    route: 'POST /auth/confirm',
    enrols: true,
    permission: 'use_session',
    needsSession: true,
    body: z.union(
      [z.strictObject({ password: password() }), z.strictObject({ credential: assertion() })],
      "must have either 'password' or 'credential'",
    ),
    reply: { status: 200, schema: z.strictObject({ status: z.literal('confirmed') }) },
    errors: ['passkey_refused', 'forbidden', 'rate_limited'],
    audit: 'auth.confirm',
    async handle({ body, author }, context) {
      if ('credential' in body) await (await requirePasskeys(context)).confirm(author, body.credential)
      // Who has stolen session and password would otherwise need no passkey.
      else if ((await listPasskeys(context.db, author.userId)).length > 0)
        throw new AdminError('forbidden', 'confirm with your passkey')
      else await context.signIn.confirm(author, body)
      return { body: { status: 'confirmed' as const } }
    },
  }),
  logoutEverywhere: endpoint({
    route: 'POST /auth/logout-everywhere',
    enrols: true,
    permission: 'use_session',
    needsSession: true,
    reply: { status: 200, schema: z.strictObject({ sessions: z.int() }) },
    errors: ['forbidden'],
    audit: 'auth.logout',
    handle: async ({ author }, { signIn }) => ({ body: { sessions: await signIn.logoutEverywhere(author) } }),
  }),
})

const params = z.strictObject({ user_id: uuid() })
const unlocked = z.boolean().meta({ description: 'False where no failed login was counted.' })

export const USERS = endpointGroup('Users', {
  listUsers: endpoint({
    route: 'GET /users',
    permission: 'read',
    reply: { status: 200, schema: z.array(User) },
    query: z.strictObject({ username: line(255).optional(), ...placeParameters() }),
    async handle({ query: { username, ...place } }, { db, pages }) {
      const { rows, next } = await readByCursor(place, pages, pagesOfUsers(db, username))
      return { body: rows.map(withTimes), next }
    },
  }),
  createUser: endpoint({
    route: 'POST /users',
    permission: 'administer',
    needsSession: true,
    body: z.strictObject({
      username: USERNAME,
      email: MAIL,
      role: z.enum(ROLES).default('auditor'),
      scope: tagList().default([]).meta({ description: SCOPE_RULE }),
    }),
    reply: { status: 201, schema: UserWithPassword },
    errors: ['conflict', 'rate_limited'],
    audit: 'user.create',
    recentSignIn: true,
    showsOnce: true,
    approval: ({ body }, context) => newUserAct(body, context),
    async handle({ body, author }, context) {
      return { body: withTimes(await createUser(context, author, body)) }
    },
  }),
  getUser: endpoint({
    route: 'GET /users/{user_id}',
    permission: 'read',
    params,
    reply: { status: 200, schema: User },
    handle: async ({ params }, { db }) => ({ body: withTimes(await requireUser(db, params.user_id)) }),
  }),
  updateUser: endpoint({
    route: 'PATCH /users/{user_id}',
    permission: 'administer',
    params,
    body: z
      .strictObject({
        username: USERNAME.optional(),
        email: MAIL.optional(),
        enabled: z.boolean().optional(),
        role: z.enum(ROLES).optional(),
        scope: tagList().optional().meta({ description: SCOPE_RULE }),
      })
      .refine((change) => Object.keys(change).length > 0, {
        error: "has none of 'username', 'email', 'enabled', 'role', 'scope'",
        when: whenSound,
      }),
    reply: { status: 200, schema: User },
    audit: 'user.update',
    recentSignIn: true,
    approval: ({ params, body }, context) => userAct('Change the user', params.user_id, body, context),
    async handle({ params, body, author }, { audit }) {
      return { body: withTimes(await changeUser(audit, author, params.user_id, body)) }
    },
  }),
  deleteUser: endpoint({
    route: 'DELETE /users/{user_id}',
    permission: 'administer',
    params,
    reply: { status: 204 },
    audit: 'user.delete',
    recentSignIn: true,
    approval: ({ params }, context) => userAct('Delete the user', params.user_id, { role: null, email: null }, context),
    handle: ({ params, author }, { audit }) => withoutBody(removeUser(audit, author, params.user_id)),
  }),
  getMe: endpoint({
    route: 'GET /me',
    enrols: true,
    permission: 'use_session',
    reply: { status: 200, schema: User },
    handle: async ({ author }, { db }) => ({ body: withTimes(await requireUser(db, author.userId)) }),
  }),
  resetMyPassword: endpoint({
    route: 'POST /me/reset-password',
    permission: 'use_session',
    needsSession: true,
    body: z.strictObject({ current_password: password().optional() }),
    bodyIsOptional: true,
    reply: { status: 200, schema: UserWithPassword },
    errors: ['forbidden', 'rate_limited'],
    audit: 'user.reset_password',
    async handle({ body, author }, context) {
      await context.signIn.requireOwner(author, body.current_password)
      return { body: withTimes(await resetPassword(context, author, author.userId)) }
    },
  }),
  resetPassword: endpoint({
    route: 'POST /users/{user_id}/reset-password',
    permission: 'administer',
    needsSession: true,
    params,
    reply: { status: 200, schema: UserWithPassword },
    errors: ['rate_limited'],
    audit: 'user.reset_password',
    recentSignIn: true,
    showsOnce: true,
    approval: ({ params }, context) => userAct('Give a new password to the user', params.user_id, {}, context),
    async handle({ params, author }, context) {
      if (params.user_id === author.userId)
        throw new AdminError('forbidden', 'one gives oneself a new password with POST /me/reset-password')
      return { body: withTimes(await resetPassword(context, author, params.user_id)) }
    },
  }),
  // It lets a guesser continue, so an API token may not do it.
  unlockUser: endpoint({
    route: 'POST /users/{user_id}/unlock',
    permission: 'administer',
    needsSession: true,
    params,
    reply: { status: 200, schema: z.strictObject({ username: z.string(), unlocked }) },
    audit: 'user.unlock',
    handle: async ({ params, author }, { audit }) => ({ body: await unlockUser(audit, author, params.user_id) }),
  }),
  unlockAddress: endpoint({
    route: 'POST /users/unlock-address',
    permission: 'administer',
    needsSession: true,
    body: z.strictObject({
      address: text(64, 'must be an IP address').refine((text) => isIP(text) !== 0, { error: 'must be an IP address' }),
    }),
    reply: { status: 200, schema: z.strictObject({ address: z.string(), unlocked }) },
    audit: 'user.unlock',
    handle: async ({ body: { address }, author }, { audit }) => ({
      body: { address, unlocked: await unlockAddress(audit, author, address) },
    }),
  }),
})
