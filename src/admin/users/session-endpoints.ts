/** `/auth`: login and logout. */

import { z } from 'zod/v4'
import { BOTH_ROLES, endpoint, endpointGroup } from '../endpoint.ts'
import { password } from '../schemas.ts'
import { User, userBody } from './user-endpoints.ts'

export const SESSION = endpointGroup('Sessions', {
  login: endpoint({
    route: 'POST /auth/login',
    roles: 'none',
    summary: 'Gives a bearer token for a username and password.',
    body: z.strictObject({
      username: z
        .string()
        .min(1)
        .max(128)
        .regex(/^\P{Cc}+$/u, { error: 'must have no control characters' }),
      password: password(),
    }),
    reply: { status: 200, schema: z.strictObject({ token: z.string(), user: User }) },
    errors: ['unauthorized', 'rate_limited'],
    audit: 'auth.login',
    async handle({ body, address }, { signIn }) {
      const { token, user } = await signIn.login(body.username, body.password, address)
      return { body: { token, user: userBody(user) } }
    },
  }),
  logout: endpoint({
    route: 'POST /auth/logout',
    roles: BOTH_ROLES,
    summary: 'Ends the session of the token, on every instance.',
    reply: { status: 200, schema: z.strictObject({ status: z.literal('logged_out') }) },
    audit: 'auth.logout',
    async handle({ author }, { signIn }) {
      await signIn.logout(author)
      return { body: { status: 'logged_out' as const } }
    },
  }),
  logoutEverywhere: endpoint({
    route: 'POST /auth/logout-everywhere',
    roles: BOTH_ROLES,
    needsSession: true,
    summary: 'Ends all sessions of the user, on every instance; API tokens stay.',
    reply: { status: 200, schema: z.strictObject({ sessions: z.int() }) },
    errors: ['forbidden'],
    audit: 'auth.logout',
    handle: async ({ author }, { signIn }) => ({ body: { sessions: await signIn.logoutEverywhere(author) } }),
  }),
})
