/** `/auth/methods` and `/auth/oidc`: the ways to sign in, and that by OpenID Connect. */

import { randomBytes } from 'node:crypto'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AdminContext } from '../context.ts'
import { text } from '../schemas.ts'
import { User, userBody } from './user-body.ts'

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
    summary: 'Says how one may sign in.',
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
    summary: 'Begins a sign-in by OpenID Connect: says where the browser goes.',
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
    summary: 'Gives a bearer token when the provider has sent the browser back.',
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
      return { body: { token, user: userBody(user) } }
    },
  }),
})
