/** `/tokens`: API tokens. */

import { z } from 'zod/v4'
import { ROLES } from '../../domain/administrator.ts'
import { ADMINS, endpoint, endpointGroup } from '../endpoint.ts'
import { longPageRequest, nextOf, placeParameters } from '../pages.ts'
import { futureInstant, line, time, timeOrNull, timestamp, uuid } from '../schemas.ts'
import type { ApiTokenRow } from './token-store.ts'

const ApiToken = z
  .strictObject({
    id: z.uuid(),
    name: z.string(),
    role: z.enum(ROLES),
    created_by: z.uuid(),
    created_at: timestamp(),
    expires_at: timestamp().nullable(),
    last_used_at: timestamp().nullable(),
    revoked_at: timestamp().nullable(),
  })
  .meta({ id: 'ApiToken' })

const ApiTokenWithSecret = z
  .strictObject({ ...ApiToken.shape, token: z.string().meta({ description: 'Shown once; it cannot be read again.' }) })
  .meta({ id: 'ApiTokenWithSecret' })

function tokenBody(row: ApiTokenRow): z.input<typeof ApiToken> {
  const { id, name, role, created_by, created_at, expires_at, last_used_at, revoked_at } = row
  return {
    id,
    name,
    role,
    created_by,
    created_at: time(created_at),
    expires_at: timeOrNull(expires_at),
    last_used_at: timeOrNull(last_used_at),
    revoked_at: timeOrNull(revoked_at),
  }
}

export const TOKENS = endpointGroup('API tokens', {
  listTokens: endpoint({
    route: 'GET /tokens',
    roles: ADMINS,
    summary: 'Lists all API tokens, the newest first, revoked ones included.',
    reply: { status: 200, schema: z.array(ApiToken) },
    query: z.strictObject(placeParameters()),
    async handle({ query }, { tokens, pages }) {
      const page = await tokens.list(longPageRequest(query, pages))
      return { body: page.rows.map(tokenBody), next: nextOf(page) }
    },
  }),
  createToken: endpoint({
    route: 'POST /tokens',
    roles: ADMINS,
    needsSession: true,
    summary: 'Makes an API token, which never has more rights than its maker, and shows it once.',
    body: z.strictObject({
      name: line(128),
      role: z.enum(ROLES).default('auditor'),
      expires_at: futureInstant().nullable().default(null),
    }),
    reply: { status: 201, schema: ApiTokenWithSecret },
    audit: 'token.create',
    async handle({ body, author }, { tokens }) {
      const { name, role, expires_at } = body
      const { token, ...row } = await tokens.create(author, { name, role, expiresAt: expires_at ?? undefined })
      return { body: { ...tokenBody(row), token } }
    },
  }),
  revokeToken: endpoint({
    route: 'DELETE /tokens/{token_id}',
    roles: ADMINS,
    summary: 'Revokes an API token, at once.',
    params: z.strictObject({ token_id: uuid() }),
    reply: { status: 204 },
    errors: ['not_found'],
    audit: 'token.revoke',
    async handle({ params, author }, { tokens }) {
      await tokens.revoke(author, params.token_id)
      return {}
    },
  }),
})
