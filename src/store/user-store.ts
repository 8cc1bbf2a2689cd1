/** SQL of administrators (table admin_users). */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { ROLES, type Role } from '../domain/administrator.ts'
import { ALL_ROWS, pageById, type ReadPage } from './list-page.ts'
import { rowsOf, sql } from './slonik.ts'

const User = z.object({
  id: z.string(),
  username: z.string(),
  email: z.string(),
  role: z.enum(ROLES),
  /** Tags of a registrar. */
  scope: z.array(z.string()),
  enabled: z.boolean(),
  created_at: z.date(),
  updated_at: z.date(),
  last_login_at: z.date().nullable(),
})
export type UserRow = z.infer<typeof User>

const None = z.object({})
const columns = sql.fragment`id, username, email, role, scope, enabled, created_at, updated_at, last_login_at`

interface NewUser {
  id: string
  username: string
  email: string
  role: Role
  scope?: readonly string[]
  enabled?: boolean
  passwordHash: string
}

/** Null when the username is taken. */
export function insertUser(db: CommonQueryMethods, user: NewUser): Promise<UserRow | null> {
  const { id, username, email, role, scope = [], enabled = true, passwordHash } = user
  return db.maybeOne(rowsOf(User)`
    INSERT INTO admin_users (id, username, email, role, scope, enabled, password_hash)
    VALUES (${id}, ${username}, ${email}, ${role}, ${sql.array([...scope], 'text')}, ${enabled}, ${passwordHash})
    ON CONFLICT (lower(username)) DO NOTHING RETURNING ${columns}`)
}

export async function listUsers(db: CommonQueryMethods): Promise<readonly UserRow[]> {
  return db.any(rowsOf(User)`SELECT ${columns} FROM admin_users ORDER BY id DESC`)
}

/** Along admin_users_pkey. @param username in any case; undefined for all */
export function pagesOfUsers(db: CommonQueryMethods, username?: string): ReadPage<UserRow> {
  const named = username === undefined ? ALL_ROWS : sql.fragment`lower(username) = lower(${username})`
  return pageById(sql.fragment`id`, (condition, limit) =>
    db.any(rowsOf(User)`
      SELECT ${columns} FROM admin_users WHERE ${condition} AND ${named} ORDER BY id DESC LIMIT ${limit}`),
  )
}

export function findUser(db: CommonQueryMethods, id: string): Promise<UserRow | null> {
  return db.maybeOne(rowsOf(User)`SELECT ${columns} FROM admin_users WHERE id = ${id}`)
}

const WithHash = User.extend({ password_hash: z.string() })

export type UserForLogin = z.infer<typeof WithHash>

export function findUserForLogin(db: CommonQueryMethods, username: string) {
  return db.maybeOne(rowsOf(WithHash)`
    SELECT ${columns}, password_hash FROM admin_users WHERE lower(username) = lower(${username})`)
}

export function findUserForLoginById(db: CommonQueryMethods, id: string) {
  return db.maybeOne(rowsOf(WithHash)`SELECT ${columns}, password_hash FROM admin_users WHERE id = ${id}`)
}

/** Whether user and password are still those that were verified. */
export function lockUserForLogin(
  tx: CommonQueryMethods,
  { id, password_hash }: Pick<UserForLogin, 'id' | 'password_hash'>,
): Promise<boolean> {
  return tx.exists(rowsOf(None)`
    SELECT FROM admin_users WHERE id = ${id} AND password_hash = ${password_hash} AND enabled FOR UPDATE`)
}

/** Two administrators who disable each other must see each other's change. */
export async function lockUsers(tx: CommonQueryMethods): Promise<void> {
  await tx.query(rowsOf(None)`LOCK TABLE admin_users IN SHARE ROW EXCLUSIVE MODE`)
}

/** A login that holds its user's row must not wait for who has locked the users. */
export async function holdUsers(tx: CommonQueryMethods): Promise<void> {
  await tx.query(rowsOf(None)`LOCK TABLE admin_users IN ROW EXCLUSIVE MODE`)
}

export async function countEnabledAdmins(tx: CommonQueryMethods): Promise<number> {
  const Count = z.object({ admins: z.int() })
  const row = await tx.one(rowsOf(Count)`
    SELECT count(*)::integer AS admins FROM admin_users WHERE role = 'admin' AND enabled`)
  return row.admins
}

export function updateUser(
  tx: CommonQueryMethods,
  id: string,
  { username, email, enabled, role, scope }: Pick<UserRow, 'username' | 'email' | 'enabled' | 'role' | 'scope'>,
) {
  return tx.one(rowsOf(User)`
    UPDATE admin_users SET username = ${username}, email = ${email}, enabled = ${enabled}, role = ${role},
                           scope = ${sql.array(scope, 'text')}, updated_at = now()
     WHERE id = ${id} RETURNING ${columns}`)
}

/** Whether another user has the name, in any case. */
export function isUsernameTaken(tx: CommonQueryMethods, id: string, username: string): Promise<boolean> {
  return tx.exists(rowsOf(None)`
    SELECT FROM admin_users WHERE lower(username) = lower(${username}) AND id <> ${id}`)
}

export function setPassword(tx: CommonQueryMethods, id: string, passwordHash: string): Promise<UserRow> {
  return tx.one(rowsOf(User)`
    UPDATE admin_users SET password_hash = ${passwordHash}, updated_at = now() WHERE id = ${id} RETURNING ${columns}`)
}

/** A better hash of the same password; no change that anybody made. */
export async function replaceHash(tx: CommonQueryMethods, id: string, passwordHash: string): Promise<void> {
  await tx.query(rowsOf(None)`UPDATE admin_users SET password_hash = ${passwordHash} WHERE id = ${id}`)
}

export async function noteLogin(tx: CommonQueryMethods, id: string): Promise<void> {
  await tx.query(rowsOf(None)`UPDATE admin_users SET last_login_at = now() WHERE id = ${id}`)
}

export async function deleteUser(tx: CommonQueryMethods, id: string): Promise<void> {
  await tx.query(rowsOf(None)`DELETE FROM admin_users WHERE id = ${id}`)
}
