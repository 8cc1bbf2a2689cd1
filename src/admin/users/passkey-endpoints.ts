/** `/auth/passkey` and `/me/passkeys`: sign-in by passkeys, and their list. */

import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import { boundedArray } from '../../shared/lib/bounded.ts'
import { endpoint, endpointGroup, withoutBody } from '../admin-endpoint.ts'
import type { AdminContext } from '../context.ts'
import { limitOf, limitParameter } from '../pages.ts'
import { line, time, timeOrNull, timestamp, uuid, withTimes } from '../schemas.ts'
import { listPasskeys, type PasskeyRow } from './passkey-store.ts'
import { User } from './users.ts'

const base64url = () => z.string().max(8_192)

/** The response of a registration or an assertion. Some browsers say more, which is not read. */
const Response = z.looseObject({
  clientDataJSON: base64url(),
  attestationObject: base64url().optional(),
  authenticatorData: base64url().optional(),
  signature: base64url().optional(),
  userHandle: base64url().nullish(),
  transports: boundedArray(line(32), 10).optional(),
})

/** Browsers give it so (`PublicKeyCredential.toJSON()`); the library checks what is in it. */
const credential = <T>() =>
  z
    .looseObject({
      id: z.string().max(1_400),
      rawId: z.string().max(1_400),
      type: z.literal('public-key'),
      response: Response,
      clientExtensionResults: z.looseObject({}).default({}),
    })
    .meta({ description: 'PublicKeyCredential as JSON (WebAuthn Level 3 §5.1).' })
    .transform((value) => value as unknown as T)

export const assertion = () => credential<AuthenticationResponseJSON>()

/** For `navigator.credentials`, as JSON. */
export const ceremonyOptions = () => z.looseObject({ challenge: z.string() })

const Passkey = z
  .strictObject({
    id: z.uuid(),
    name: z.string(),
    created_at: timestamp(),
    last_used_at: timestamp().nullable(),
  })
  .meta({ id: 'Passkey' })

const passkeyBody = ({ id, name, created_at, last_used_at }: PasskeyRow): z.input<typeof Passkey> => ({
  id,
  name,
  created_at: time(created_at),
  last_used_at: timeOrNull(last_used_at),
})

/** @throws AdminError not_found */
export function requirePasskeys({ passkeys }: Pick<AdminContext, 'passkeys'>) {
  const message = 'passkeys need a console at a host name; set admin_api.console_url'
  return passkeys ?? Promise.reject(new AdminError('not_found', message))
}

const params = z.strictObject({ passkey_id: uuid() })
const own = { permission: 'use_session', needsSession: true } as const

export const PASSKEYS = endpointGroup('Sessions', {
  getPasskeyOptions: endpoint({
    route: 'POST /auth/passkey/options',
    permission: 'none',
    reply: { status: 200, schema: ceremonyOptions() },
    errors: ['not_found'],
    handle: async (_request, context) => ({ body: { ...(await (await requirePasskeys(context)).signInOptions()) } }),
  }),
  signInByPasskey: endpoint({
    route: 'POST /auth/passkey',
    permission: 'none',
    body: z.strictObject({ credential: assertion() }),
    reply: { status: 200, schema: z.strictObject({ token: z.string(), user: User }) },
    errors: ['not_found', 'passkey_refused'],
    audit: 'auth.login',
    async handle({ body, address, userAgent }, context) {
      const passkeys = await requirePasskeys(context)
      const { token, user } = await passkeys.signIn(body.credential, { ipAddress: address, userAgent })
      return { body: { token, user: withTimes(user) } }
    },
  }),
  getConfirmOptions: endpoint({
    ...own,
    route: 'POST /auth/confirm/options',
    enrols: true,
    reply: { status: 200, schema: z.strictObject({ passkey: ceremonyOptions().nullable() }) },
    async handle({ author }, { passkeys }) {
      const options = await passkeys?.confirmOptions(author)
      return { body: { passkey: options ? { ...options } : null } }
    },
  }),
  listMyPasskeys: endpoint({
    ...own,
    route: 'GET /me/passkeys',
    enrols: true,
    query: z.strictObject({ limit: limitParameter() }),
    reply: { status: 200, schema: z.array(Passkey) },
    handle: async ({ query, author }, { db, pages }) => ({
      body: (await listPasskeys(db, author.userId)).slice(0, limitOf(query.limit, pages)).map(passkeyBody),
    }),
  }),
  getRegistrationOptions: endpoint({
    ...own,
    route: 'POST /me/passkeys/options',
    enrols: true,
    recentSignIn: true,
    reply: { status: 200, schema: ceremonyOptions() },
    errors: ['not_found', 'conflict'],
    async handle({ author }, context) {
      return { body: { ...(await (await requirePasskeys(context)).registrationOptions(author)) } }
    },
  }),
  addPasskey: endpoint({
    ...own,
    route: 'POST /me/passkeys',
    enrols: true,
    // The challenge in it was made for this session after a recent sign-in.
    body: z.strictObject({ name: line(100), credential: credential<RegistrationResponseJSON>() }),
    reply: { status: 201, schema: Passkey },
    errors: ['not_found', 'passkey_refused', 'conflict'],
    audit: 'user.add_passkey',
    async handle({ body, author }, context) {
      const passkeys = await requirePasskeys(context)
      return { body: passkeyBody(await passkeys.register(author, body.name, body.credential)) }
    },
  }),
  renamePasskey: endpoint({
    ...own,
    route: 'PATCH /me/passkeys/{passkey_id}',
    params,
    body: z.strictObject({ name: line(100) }),
    reply: { status: 200, schema: Passkey },
    audit: 'user.rename_passkey',
    async handle({ params, body, author }, context) {
      const passkeys = await requirePasskeys(context)
      return { body: passkeyBody(await passkeys.rename(author, params.passkey_id, body.name)) }
    },
  }),
  removePasskey: endpoint({
    ...own,
    route: 'DELETE /me/passkeys/{passkey_id}',
    recentSignIn: true,
    params,
    reply: { status: 204 },
    errors: ['conflict'],
    audit: 'user.remove_passkey',
    handle: async ({ params, author }, context) =>
      withoutBody((await requirePasskeys(context)).remove(author, params.passkey_id)),
  }),
})
