/** `/tokens`: API tokens, for machines, which have no password. A token acts for its maker and ends with that user. */

import { randomBytes } from 'node:crypto'
import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError, requireFound } from '../../domain/admin-error.ts'
import { ROLES, type Role } from '../../domain/administrator.ts'
import { SCOPE_RULE } from '../../domain/permissions.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import { pageById, type ReadPage } from '../../store/list-page.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup, withoutBody } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { placeParameters, readByCursor } from '../pages.ts'
import { futureInstant, line, rowOf, tagList, timestamp, uuid, withTimes } from '../schemas.ts'
import { endByProvider } from './sessions.ts'
import { API_TOKEN_PREFIX, hashApiToken, type SignedIn } from './sign-in.ts'
import { requireScope } from './users.ts'

const TOKEN_BYTES = 32

const ApiToken = z
  .strictObject({
    id: z.uuid(),
    name: z.string(),
    role: z.enum(ROLES),
    scope: z.array(z.string()).meta({ description: 'Tags of accounts and credentials, for the role registrar.' }),
    created_by: z.uuid(),
    created_at: timestamp(),
    expires_at: timestamp().nullable().meta({
      description: 'That of a person whom a provider signs in ends 90 days after the last sign-in there at the latest.',
    }),
    last_used_at: timestamp().nullable(),
    revoked_at: timestamp().nullable(),
  })
  .meta({ id: 'ApiToken' })

const Token = rowOf(ApiToken)
/** It has no hash. */
type ApiTokenRow = z.infer<typeof Token>

const columns = sql.fragment`
  id, name, role, scope, created_by, created_at, last_used_at, revoked_at,
  least(expires_at, ${endByProvider(sql.fragment`created_by`)}) AS expires_at`

const ApiTokenWithSecret = z
  .strictObject({ ...ApiToken.shape, token: z.string().meta({ description: 'Shown once; it cannot be read again.' }) })
  .meta({ id: 'ApiTokenWithSecret' })

export const TOKENS = endpointGroup('API tokens', {
  listTokens: endpoint({
    route: 'GET /tokens',
    permission: 'administer',
    reply: { status: 200, schema: z.array(ApiToken) },
    query: z.strictObject(placeParameters()),
    async handle({ query }, { db, pages }) {
      const { rows, next } = await readByCursor(query, pages, pagesOfApiTokens(db))
      return { body: rows.map(withTimes), next }
    },
  }),
  createToken: endpoint({
    route: 'POST /tokens',
    permission: 'administer',
    needsSession: true,
    recentSignIn: true,
    body: z.strictObject({
      name: line(128),
      role: z.enum(ROLES).default('auditor'),
      scope: tagList().default([]).meta({ description: SCOPE_RULE }),
      expires_at: futureInstant().nullable().default(null),
    }),
    reply: { status: 201, schema: ApiTokenWithSecret },
    audit: 'token.create',
    async handle({ body, author }, { audit }) {
      const { expires_at, ...wanted } = body
      const made = await createApiToken(audit, author, { ...wanted, expiresAt: expires_at ?? undefined })
      return { body: withTimes(made) }
    },
  }),
  revokeToken: endpoint({
    route: 'DELETE /tokens/{token_id}',
    permission: 'administer',
    params: z.strictObject({ token_id: uuid() }),
    reply: { status: 204 },
    audit: 'token.revoke',
    handle: ({ params, author }, { audit }) => withoutBody(revokeApiToken(audit, author, params.token_id)),
  }),
})

interface WantedApiToken {
  name: string
  role: Role
  scope: readonly string[]
  /** Undefined for a token without an end. */
  expiresAt: Date | undefined
}

/** @returns the token, which cannot be read again */
function createApiToken(
  audit: AuditLog,
  author: SignedIn,
  wanted: WantedApiToken,
): Promise<ApiTokenRow & { token: string }> {
  const { name, role, scope, expiresAt } = wanted
  requireScope(wanted)
  const token = API_TOKEN_PREFIX + randomBytes(TOKEN_BYTES).toString('base64url')
  return audit.transaction(author, async (tx, note) => {
    const id = uuidv7(Date.now())
    const hash = hashApiToken(token)
    const made = await insertApiToken(tx, { ...wanted, id, hash, createdBy: author.userId })
    if (!made) throw new AdminError('unauthorized', 'the user of this token was deleted')
    const limits = { ...(scope.length > 0 && { scope }), ...(expiresAt && { expires_at: expiresAt }) }
    note('token.create', { token_id: id, name, role, ...limits }, author.userId)
    return { ...made, token }
  })
}

/** May be repeated. @throws AdminError not_found */
function revokeApiToken(audit: AuditLog, author: SignedIn, id: string): Promise<void> {
  return audit.transaction(author, async (tx, note) => {
    const found = requireFound(await findApiTokenById(tx, id), 'API token')
    if (found.revoked_at) return
    await markRevoked(tx, id)
    note('token.revoke', { token_id: id, name: found.name }, found.created_by)
  })
}

interface NewApiToken extends WantedApiToken {
  id: string
  hash: Buffer
  createdBy: string
}

/** Null when its maker has just been deleted. */
function insertApiToken(tx: CommonQueryMethods, token: NewApiToken): Promise<ApiTokenRow | null> {
  const { id, name, role, scope, hash, createdBy, expiresAt } = token
  return tx.maybeOne(rowsOf(Token)`
    INSERT INTO admin_api_tokens (id, name, role, scope, token_hash, created_by, expires_at)
    SELECT ${id}, ${name}, ${role}, ${sql.array([...scope], 'text')}, ${sql.binary(hash)}, u.id, ${expiresAt?.toISOString() ?? null}::timestamptz
      FROM admin_users u WHERE u.id = ${createdBy} FOR SHARE
    RETURNING ${columns}`)
}

/** Along admin_api_tokens_pkey. */
function pagesOfApiTokens(db: CommonQueryMethods): ReadPage<ApiTokenRow> {
  return pageById(sql.fragment`id`, (condition, limit) =>
    db.any(rowsOf(Token)`SELECT ${columns} FROM admin_api_tokens WHERE ${condition} ORDER BY id DESC LIMIT ${limit}`),
  )
}

export function findApiTokenById(tx: CommonQueryMethods, id: string): Promise<ApiTokenRow | null> {
  return tx.maybeOne(rowsOf(Token)`SELECT ${columns} FROM admin_api_tokens WHERE id = ${id} FOR UPDATE`)
}

export async function markRevoked(tx: CommonQueryMethods, id: string): Promise<void> {
  await tx.query(rowsOf(z.object({}))`UPDATE admin_api_tokens SET revoked_at = now() WHERE id = ${id}`)
}
