/** SQL of the list of sessions (table admin_sessions). */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { SESSION_METHODS } from '../../domain/administrator.ts'
import { rowsOf } from '../../store/slonik.ts'

const None = z.object({})
const Row = z.object({
  id: z.string(),
  ip_address: z.string(),
  user_agent: z.string().nullable(),
  methods: z.array(z.enum(SESSION_METHODS)),
  created_at: z.date(),
  authenticated_at: z.date().nullable(),
  expires_at: z.date(),
})
export type SessionRow = z.infer<typeof Row>

/** Lists sessions that are good, the newest first. admin_sessions_user */
export function listSessions(db: CommonQueryMethods, userId: string, limit: number): Promise<readonly SessionRow[]> {
  return db.any(rowsOf(Row)`
    SELECT id, ip_address, user_agent, methods, created_at, authenticated_at, expires_at FROM admin_sessions
     WHERE user_id = ${userId} AND expires_at > now() ORDER BY id DESC LIMIT ${limit}`)
}

/** @returns false when the user has no such session */
export async function endSessionOf(tx: CommonQueryMethods, userId: string, id: string): Promise<boolean> {
  const { rowCount } = await tx.query(rowsOf(None)`
    DELETE FROM admin_sessions WHERE id = ${id} AND user_id = ${userId} AND expires_at > now()`)
  return rowCount > 0
}

/** @returns how many have ended */
export async function endOtherSessions(tx: CommonQueryMethods, userId: string, kept: string): Promise<number> {
  const { rowCount } = await tx.query(rowsOf(None)`
    DELETE FROM admin_sessions WHERE user_id = ${userId} AND id <> ${kept}`)
  return rowCount
}
