/** SQL of sessions, API tokens and login limits. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { ROLES, type Role } from '../../domain/administrator.ts'
import { KNOWN_ADDRESS_HOURS, LOGIN_LIMIT } from '../../domain/rate-limit.ts'
import { rowsOf, sql } from '../../store/slonik.ts'

const None = z.object({})
const Author = z.object({ user_id: z.string(), username: z.string(), role: z.enum(ROLES) })
export type SessionAuthor = z.infer<typeof Author>

export async function insertSession(
  tx: CommonQueryMethods,
  session: { id: string; userId: string; ipAddress: string; expiresAt: Date },
): Promise<void> {
  const { id, userId, ipAddress, expiresAt } = session
  await tx.query(rowsOf(None)`
    INSERT INTO admin_sessions (id, user_id, ip_address, expires_at)
    VALUES (${id}, ${userId}, ${ipAddress}, ${expiresAt.toISOString()}::timestamptz)`)
  await tx.query(rowsOf(None)`DELETE FROM admin_sessions WHERE expires_at < now()`)
}

/** One indexed read: the session, its user and the role of this moment. */
export function findSession(db: CommonQueryMethods, id: string): Promise<SessionAuthor | null> {
  return db.maybeOne(rowsOf(Author)`
    SELECT u.id AS user_id, u.username, u.role FROM admin_sessions s JOIN admin_users u ON u.id = s.user_id
     WHERE s.id = ${id} AND s.expires_at > now() AND u.enabled`)
}

/** @returns false when it has ended already */
export async function deleteSession(tx: CommonQueryMethods, id: string): Promise<boolean> {
  const { rowCount } = await tx.query(rowsOf(None)`DELETE FROM admin_sessions WHERE id = ${id} AND expires_at > now()`)
  return rowCount > 0
}

/** @returns how many there were */
export async function deleteSessionsOf(tx: CommonQueryMethods, userId: string): Promise<number> {
  const { rowCount } = await tx.query(rowsOf(None)`DELETE FROM admin_sessions WHERE user_id = ${userId}`)
  return rowCount
}

const Standing = Author.pick({ role: true })

/** The role of a session that still stands; it stands until the transaction ends. */
export async function holdSession(tx: CommonQueryMethods, id: string): Promise<Role | undefined> {
  const found = await tx.maybeOne(rowsOf(Standing)`
    SELECT u.role FROM admin_sessions s JOIN admin_users u ON u.id = s.user_id
     WHERE s.id = ${id} AND s.expires_at > clock_timestamp() AND u.enabled FOR SHARE`)
  return found?.role
}

const roleOfToken = sql.fragment`CASE WHEN t.role = 'admin' AND u.role = 'admin' THEN 'admin' ELSE 'auditor' END AS role`
const isTokenGood = sql.fragment`
  t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp()) AND u.enabled`

/** The same for an API token. */
export async function holdApiToken(tx: CommonQueryMethods, id: string): Promise<Role | undefined> {
  const found = await tx.maybeOne(rowsOf(Standing)`
    SELECT ${roleOfToken} FROM admin_api_tokens t JOIN admin_users u ON u.id = t.created_by
     WHERE t.id = ${id} AND ${isTokenGood} FOR SHARE`)
  return found?.role
}

const TokenAuthor = Author.extend({ token_id: z.string() })

/**
 * The lesser of the token's role and its maker's. Last use is noted once a minute, and later when
 * another request of the token is at work.
 */
export function findApiToken(db: CommonQueryMethods, hash: Buffer) {
  return db.maybeOne(rowsOf(TokenAuthor)`
    WITH found AS (
      SELECT t.id, t.last_used_at, u.id AS user_id, u.username, ${roleOfToken}
        FROM admin_api_tokens t JOIN admin_users u ON u.id = t.created_by
       WHERE t.token_hash = ${sql.binary(hash)} AND ${isTokenGood}
    ), unused AS (
      SELECT t.id FROM admin_api_tokens t JOIN found ON found.id = t.id
       WHERE found.last_used_at IS NULL OR found.last_used_at < now() - interval '1 minute'
         FOR NO KEY UPDATE OF t SKIP LOCKED
    ), used AS (
      UPDATE admin_api_tokens t SET last_used_at = now() FROM unused WHERE t.id = unused.id
    )
    SELECT id AS token_id, user_id, username, role FROM found`)
}

const Locked = z.object({ seconds: z.number() })

/** @returns seconds until the first of the subjects is free; 0 when none is locked */
export async function lockedFor(db: CommonQueryMethods, subjects: readonly string[]): Promise<number> {
  const row = await db.one(rowsOf(Locked)`
    SELECT greatest(0, ceil(coalesce(max(extract(epoch FROM locked_until - now())), 0)))::float8 AS seconds
      FROM admin_login_limits WHERE subject = ANY (${sql.array([...subjects], 'text')})`)
  return row.seconds
}

const Failure = z.object({ failures: z.int(), locked: z.boolean() })

/** Counts a failure. @param most with which the subject is locked */
export function countFailure(tx: CommonQueryMethods, subject: string, most: number): Promise<z.infer<typeof Failure>> {
  const { windowSeconds, lockSeconds } = LOGIN_LIMIT
  const window = sql.fragment`make_interval(secs => ${windowSeconds})`
  const isOver = sql.fragment`coalesce(l.locked_until, l.window_began_at + ${window}) < now()`
  return tx.one(rowsOf(Failure)`
    INSERT INTO admin_login_limits AS l (subject, failures, window_began_at) VALUES (${subject}, 1, now())
    ON CONFLICT (subject) DO UPDATE SET
      failures = CASE WHEN ${isOver} THEN 1 ELSE l.failures + 1 END,
      window_began_at = CASE WHEN ${isOver} THEN now() ELSE l.window_began_at END,
      locked_until = CASE WHEN NOT (${isOver}) AND l.failures + 1 >= ${most}
                          THEN now() + make_interval(secs => ${lockSeconds}) END
    RETURNING failures, coalesce(locked_until > now(), false) AS locked`)
}

export async function forgetFailures(tx: CommonQueryMethods, subjects: readonly string[]): Promise<number> {
  const { rowCount } = await tx.query(rowsOf(None)`
    DELETE FROM admin_login_limits WHERE subject = ANY (${sql.array([...subjects], 'text')})`)
  return rowCount
}

/** Entries that neither count nor lock any more. */
export async function forgetOldFailures(db: CommonQueryMethods): Promise<number> {
  const { rowCount } = await db.query(rowsOf(None)`
    DELETE FROM admin_login_limits
     WHERE coalesce(locked_until, window_began_at + make_interval(secs => ${LOGIN_LIMIT.windowSeconds})) < now()`)
  return rowCount
}

export async function noteLoginAddress(tx: CommonQueryMethods, userId: string, ipAddress: string): Promise<void> {
  await tx.query(rowsOf(None)`
    INSERT INTO admin_login_addresses (user_id, ip_address, last_login_at) VALUES (${userId}, ${ipAddress}, now())
    ON CONFLICT (user_id, ip_address) DO UPDATE SET last_login_at = now()`)
  await tx.query(rowsOf(None)`
    DELETE FROM admin_login_addresses
     WHERE user_id = ${userId} AND last_login_at < now() - make_interval(hours => ${KNOWN_ADDRESS_HOURS})`)
}

/** Whether the user has signed in from this address lately. */
export function isKnownAddress(db: CommonQueryMethods, userId: string, ipAddress: string): Promise<boolean> {
  return db.exists(rowsOf(None)`
    SELECT FROM admin_login_addresses WHERE user_id = ${userId} AND ip_address = ${ipAddress}
       AND last_login_at > now() - make_interval(hours => ${KNOWN_ADDRESS_HOURS})`)
}
