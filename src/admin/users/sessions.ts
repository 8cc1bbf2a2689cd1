/**
 * Sessions and API tokens in the database, and whether an author may still act after the gate has admitted the request.
 *
 * The action's own transaction reads that and holds it until its commit. A logout, a revocation or a change of role
 * that comes first wins, and one that comes later waits.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import { type Actor, ROLES, SESSION_METHODS, type SessionMethod } from '../../domain/administrator.ts'
import { type Authority, includesAuthority, lesserAuthority } from '../../domain/permissions.ts'
import { CLOCKS_DIFFER_SECONDS } from '../../shared/lib/clocks.ts'
import type { Fragment } from '../../store/list-page.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { rowOf, timestamp } from '../schemas.ts'

const None = z.object({})
const Author = z.object({ user_id: z.string(), username: z.string(), role: z.enum(ROLES), scope: z.array(z.string()) })
const OfSession = Author.extend({ methods: z.array(z.enum(SESSION_METHODS)) })
type SessionAuthor = z.infer<typeof OfSession>

export async function insertSession(
  tx: CommonQueryMethods,
  session: {
    id: string
    userId: string
    ipAddress: string
    userAgent?: string | undefined
    methods: readonly SessionMethod[]
    /** Null when it is not known. */
    authenticatedAt: Date | null
    expiresAt: Date
  },
): Promise<void> {
  const { id, userId, ipAddress, userAgent, methods, authenticatedAt, expiresAt } = session
  await tx.query(rowsOf(None)`
    INSERT INTO admin_sessions (id, user_id, ip_address, user_agent, methods, authenticated_at, expires_at)
    VALUES (${id}, ${userId}, ${ipAddress}, ${userAgent ?? null}, ${sql.array([...methods], 'text')},
            ${authenticatedAt?.toISOString() ?? null}::timestamptz, ${expiresAt.toISOString()}::timestamptz)`)
  await tx.query(rowsOf(None)`DELETE FROM admin_sessions WHERE expires_at < slow_now()`)
}

/** One indexed read: the session, its user, and role and scope of this moment. */
export function findSession(db: CommonQueryMethods, id: string): Promise<SessionAuthor | null> {
  return db.maybeOne(rowsOf(OfSession)`
    SELECT u.id AS user_id, u.username, u.role, u.scope, s.methods FROM admin_sessions s JOIN admin_users u ON u.id = s.user_id
     WHERE s.id = ${id} AND s.expires_at > now() AND u.enabled`)
}

const Methods = z.object({ methods: z.array(z.enum(SESSION_METHODS)) })

/** @returns how its user was recognized; undefined when it has ended already */
export async function deleteSession(tx: CommonQueryMethods, id: string): Promise<readonly SessionMethod[] | undefined> {
  const ended = await tx.maybeOne(rowsOf(Methods)`
    DELETE FROM admin_sessions WHERE id = ${id} AND expires_at > now() RETURNING methods`)
  return ended?.methods
}

/** Ends every session and API token of a user. @returns how many API tokens it revoked */
export async function endAccess(tx: CommonQueryMethods, userId: string): Promise<number> {
  await deleteSessionsOf(tx, userId)
  const { rowCount } = await tx.query(rowsOf(None)`
    UPDATE admin_api_tokens SET revoked_at = now() WHERE created_by = ${userId} AND revoked_at IS NULL`)
  return rowCount
}

/** @returns how many there were */
export async function deleteSessionsOf(tx: CommonQueryMethods, userId: string): Promise<number> {
  const { rowCount } = await tx.query(rowsOf(None)`DELETE FROM admin_sessions WHERE user_id = ${userId}`)
  return rowCount
}

const Held = Author.pick({ role: true, scope: true })

/** The authority of a session that is still good, and stays so until the transaction ends. */
function holdSession(tx: CommonQueryMethods, id: string): Promise<Authority | null> {
  return tx.maybeOne(rowsOf(Held)`
    SELECT u.role, u.scope FROM admin_sessions s JOIN admin_users u ON u.id = s.user_id
     WHERE s.id = ${id} AND s.expires_at > clock_timestamp() AND u.enabled FOR SHARE`)
}

/**
 * When the API tokens of a person end whom a provider signs in; null for others. Rights are reviewed every three months
 * (Network and Certificate System Security Requirements 2.j), and who has left cannot sign in there.
 */
export const endByProvider = (userId: Fragment) => sql.fragment`
  (SELECT max(i.confirmed_at) + interval '90 days' FROM admin_user_identities i WHERE i.user_id = ${userId})`

const isTokenGood = sql.fragment`
  t.revoked_at IS NULL AND coalesce(least(t.expires_at, ${endByProvider(sql.fragment`u.id`)}) > clock_timestamp(), true)
  AND u.enabled`

/** The authority of an API token and of its maker. */
const HeldToken = z.object({
  role: z.enum(ROLES),
  scope: z.array(z.string()),
  maker_role: z.enum(ROLES),
  maker_scope: z.array(z.string()),
})
const authorities = sql.fragment`t.role, t.scope, u.role AS maker_role, u.scope AS maker_scope`

const authorityOf = ({ role, scope, maker_role, maker_scope }: z.infer<typeof HeldToken>) =>
  lesserAuthority({ role, scope }, { role: maker_role, scope: maker_scope })

/** The authority of an API token that is still good, until the transaction ends. */
async function holdApiToken(tx: CommonQueryMethods, id: string): Promise<Authority | undefined> {
  const found = await tx.maybeOne(rowsOf(HeldToken)`
    SELECT ${authorities} FROM admin_api_tokens t JOIN admin_users u ON u.id = t.created_by
     WHERE t.id = ${id} AND ${isTokenGood} FOR SHARE`)
  return found ? authorityOf(found) : undefined
}

const TokenAuthor = HeldToken.extend({ token_id: z.string(), user_id: z.string(), username: z.string() })

/**
 * It has the lesser of the token's authority and its maker's. Last use is noted once a minute, and later when another
 * request of the token is at work.
 * @returns undefined for a token that gives no right
 */
export async function findApiToken(db: CommonQueryMethods, hash: Buffer) {
  const found = await db.maybeOne(rowsOf(TokenAuthor)`
    WITH found AS (
      SELECT t.id, t.last_used_at, u.id AS user_id, u.username, ${authorities}
        FROM admin_api_tokens t JOIN admin_users u ON u.id = t.created_by
       WHERE t.token_hash = ${sql.binary(hash)} AND ${isTokenGood}
    ), unused AS (
      SELECT t.id FROM admin_api_tokens t JOIN found ON found.id = t.id
       WHERE found.last_used_at IS NULL OR found.last_used_at < now() - interval '1 minute'
         FOR NO KEY UPDATE OF t SKIP LOCKED
    ), used AS (
      UPDATE admin_api_tokens t SET last_used_at = now() FROM unused WHERE t.id = unused.id
    )
    SELECT id AS token_id, user_id, username, role, scope, maker_role, maker_scope FROM found`)
  const authority = found && authorityOf(found)
  return authority && { tokenId: found.token_id, userId: found.user_id, username: found.username, ...authority }
}

/**
 * Authors without session and token are the command line and the service itself.
 *
 * @throws AdminError unauthorized, forbidden
 */
export async function requireAuthority(
  tx: CommonQueryMethods,
  author: Pick<Partial<Actor>, 'role' | 'scope' | 'sessionId' | 'apiTokenId'>,
): Promise<void> {
  const { role, scope = [], sessionId, apiTokenId } = author
  if (sessionId === undefined && apiTokenId === undefined) return
  const current =
    sessionId === undefined ? await holdApiToken(tx, apiTokenId as string) : await holdSession(tx, sessionId)
  if (!current) throw noLongerGood()
  if (role !== undefined && !includesAuthority(current, { role, scope }))
    throw new AdminError('forbidden', `this needs the rights of ${role}, which have just been taken away`)
}

/**
 * Holds the authority of a person who has asked for something earlier, perhaps in a session that has ended.
 * @throws AdminError conflict when it is less than it was then
 */
export async function requireSameAuthority(tx: CommonQueryMethods, maker: Actor): Promise<void> {
  const { userId, apiTokenId, role, scope = [] } = maker
  if (userId === undefined) return
  const current = apiTokenId === undefined ? await holdUser(tx, userId) : await holdApiToken(tx, apiTokenId)
  if (!current || !includesAuthority(current, { role, scope }))
    throw new AdminError('conflict', `${maker.username} may no longer do what this asks for; reject it`)
}

function holdUser(tx: CommonQueryMethods, id: string): Promise<Authority | null> {
  return tx.maybeOne(rowsOf(Held)`SELECT role, scope FROM admin_users WHERE id = ${id} AND enabled FOR SHARE`)
}

/** Whether the user of a session was recognized within this time; not when that is not known, or of a clock that was ahead. */
export function isRecentlyConfirmed(db: CommonQueryMethods, id: string, seconds: number): Promise<boolean> {
  return db.exists(rowsOf(None)`
    SELECT FROM admin_sessions
     WHERE id = ${id} AND authenticated_at > now() - make_interval(secs => ${seconds})
       AND authenticated_at < now() + make_interval(secs => ${CLOCKS_DIFFER_SECONDS})`)
}

export async function noteConfirmed(tx: CommonQueryMethods, id: string): Promise<void> {
  await tx.query(rowsOf(None)`UPDATE admin_sessions SET authenticated_at = now() WHERE id = ${id}`)
}

/** The user of a session has shown another proof. */
export async function noteMethod(tx: CommonQueryMethods, id: string, method: SessionMethod): Promise<void> {
  await tx.query(rowsOf(None)`
    UPDATE admin_sessions SET methods = methods || ${method}::text WHERE id = ${id} AND ${method} <> ALL (methods)`)
}

export const noLongerGood = () => new AdminError('unauthorized', 'the token has expired, or was logged out or revoked')

/** A session as its user sees it. */
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
