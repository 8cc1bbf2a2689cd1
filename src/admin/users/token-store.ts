/** SQL of API tokens (table admin_api_tokens). `session-store.ts` authenticates them. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { ROLES, type Role } from '../../domain/administrator.ts'
import { pageById, type ReadPage } from '../../store/list-page.ts'
import { rowsOf, sql } from '../../store/slonik.ts'

const Token = z.object({
  id: z.string(),
  name: z.string(),
  role: z.enum(ROLES),
  created_by: z.string(),
  created_at: z.date(),
  expires_at: z.date().nullable(),
  last_used_at: z.date().nullable(),
  revoked_at: z.date().nullable(),
})
/** Without its hash. */
export type ApiTokenRow = z.infer<typeof Token>

const columns = sql.fragment`id, name, role, created_by, created_at, expires_at, last_used_at, revoked_at`

export interface NewApiToken {
  id: string
  name: string
  role: Role
  hash: Buffer
  createdBy: string
  expiresAt: Date | undefined
}

/** Null when its maker has just been deleted. */
export function insertApiToken(tx: CommonQueryMethods, token: NewApiToken): Promise<ApiTokenRow | null> {
  const { id, name, role, hash, createdBy, expiresAt } = token
  return tx.maybeOne(rowsOf(Token)`
    INSERT INTO admin_api_tokens (id, name, role, token_hash, created_by, expires_at)
    SELECT ${id}, ${name}, ${role}, ${sql.binary(hash)}, u.id, ${expiresAt?.toISOString() ?? null}::timestamptz
      FROM admin_users u WHERE u.id = ${createdBy} FOR SHARE
    RETURNING ${columns}`)
}

/** Along admin_api_tokens_pkey. */
export function pagesOfApiTokens(db: CommonQueryMethods): ReadPage<ApiTokenRow> {
  return pageById(sql.fragment`id`, (condition, limit) =>
    db.any(rowsOf(Token)`SELECT ${columns} FROM admin_api_tokens WHERE ${condition} ORDER BY id DESC LIMIT ${limit}`),
  )
}

export function findApiTokenById(tx: CommonQueryMethods, id: string): Promise<ApiTokenRow | null> {
  return tx.maybeOne(rowsOf(Token)`SELECT ${columns} FROM admin_api_tokens WHERE id = ${id} FOR UPDATE`)
}

export async function revokeApiToken(tx: CommonQueryMethods, id: string): Promise<void> {
  await tx.query(rowsOf(z.object({}))`UPDATE admin_api_tokens SET revoked_at = now() WHERE id = ${id}`)
}

/** @returns how many */
export async function revokeApiTokensOf(tx: CommonQueryMethods, userId: string): Promise<number> {
  const { rowCount } = await tx.query(rowsOf(z.object({}))`
    UPDATE admin_api_tokens SET revoked_at = now() WHERE created_by = ${userId} AND revoked_at IS NULL`)
  return rowCount
}
