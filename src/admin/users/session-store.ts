/** Sessions as their users see them, and the SQL of their list (table admin_sessions). */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { SESSION_METHODS } from '../../domain/administrator.ts'
import { rowsOf } from '../../store/slonik.ts'
import { rowOf, timestamp } from '../schemas.ts'

const None = z.object({})
export const Session = z
  .strictObject({
    id: z.uuid(),
    is_current: z.boolean().meta({ description: 'The session that asks.' }),
    ip_address: z.string(),
    user_agent: z.string().nullable().meta({ description: 'Of the browser that signed in; null when it did not say.' }),
    methods: z.array(z.enum(SESSION_METHODS)),
    created_at: timestamp(),
    authenticated_at: timestamp().nullable().meta({ description: 'When the user last proved to be the user.' }),
    expires_at: timestamp(),
  })
  .meta({ id: 'Session' })

const Row = rowOf(Session.omit({ is_current: true }))
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
