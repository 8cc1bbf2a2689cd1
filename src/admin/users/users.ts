/**
 * Administrators as the Admin API shows them. They are created, changed, deleted and given new passwords; the last enabled admin
 * stays one.
 */

import type { CommonQueryMethods, DatabasePool } from 'slonik'
import * as z from 'zod/v4'
import { AdminError, requireFound } from '../../domain/admin-error.ts'
import { type Actor, isUsername, ROLES, type Role, USERNAME_RULE } from '../../domain/administrator.ts'
import { type Authority, includesAuthority, isScoped, SCOPE_RULE } from '../../domain/permissions.ts'
import { addressSubject, usernameSubject } from '../../domain/rate-limit.ts'
import { isMailAddress, MAIL_ADDRESS } from '../../shared/lib/bounded.ts'
import { countedAddress } from '../../shared/lib/ip-address.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import {
  countEnabledAdmins,
  deleteUser,
  findUser,
  findUserForLogin,
  insertUser,
  isUsernameTaken,
  listUsers,
  lockUsers,
  setPassword,
  type UserRow,
  updateUser,
} from '../../store/user-store.ts'
import { notRight } from '../admin-errors.ts'
import type { AuditLog, Transaction, Work } from '../audit/audit-log.ts'
import { text, timestamp } from '../schemas.ts'
import { forgetFailures } from './login-attempts.ts'
import { deletePasskeysOf } from './passkey-store.ts'
import { generatePassword, type PasswordHasher, passwordFault } from './passwords.ts'
import { endAccess, endOtherSessions } from './sessions.ts'
import type { SignedIn } from './sign-in.ts'

export const User = z
  .strictObject({
    id: z.uuid(),
    username: z.string(),
    email: z.string(),
    role: z.enum(ROLES),
    scope: z.array(z.string()).meta({ description: 'Tags of accounts and credentials that a registrar looks after.' }),
    enabled: z.boolean(),
    created_at: timestamp(),
    updated_at: timestamp(),
    last_login_at: timestamp().nullable(),
  })
  .meta({ id: 'User' })

const trimmed = (rule: string) => text(1_000, rule).transform((text) => text.trim())
export const USERNAME = trimmed(USERNAME_RULE).refine(isUsername, { error: USERNAME_RULE })
const MAIL_RULE = `must be ${MAIL_ADDRESS}`
export const MAIL = trimmed(MAIL_RULE).refine(isMailAddress, { error: MAIL_RULE })

/** The parts that a new password needs. */
interface UserResources {
  audit: AuditLog
  passwords: PasswordHasher
  policy: { passwordLength: number }
}

export interface WantedUser {
  username: string
  email: string
  role: Role
  scope?: readonly string[]
}

/** The password is in this value only; nothing can read it again. */
type UserWithPassword = UserRow & { password: string }

/** A user of another service, with the hash that it kept. */
export interface ImportedUser extends WantedUser {
  enabled: boolean
  passwordHash: string
}

/** @throws AdminError not_found */
export async function requireUser(db: CommonQueryMethods, id: string): Promise<UserRow> {
  return requireFound(await findUser(db, id), 'user')
}

export async function createUser(
  resources: UserResources,
  actor: Actor,
  wanted: WantedUser,
): Promise<UserWithPassword> {
  const { username, email, role, scope = [] } = wanted
  requireScope({ role, scope })
  const { password, passwordHash } = await newPassword(resources)
  return change(resources.audit, actor, async (tx, note) => {
    const user = await insertUser(tx, { id: uuidv7(Date.now()), username, email, role, scope, passwordHash })
    if (!user) throw isTaken(username)
    note('user.create', { username, role, ...(scope.length > 0 && { scope }) }, user.id)
    return { ...user, password }
  })
}

/**
 * Makes the first administrator, `admin`.
 * @returns undefined when there is a user already
 */
export async function createFirstUser(
  resources: UserResources & { db: DatabasePool },
  author: Actor,
  email: string,
): Promise<UserWithPassword | undefined> {
  if ((await listUsers(resources.db)).length > 0) return undefined
  const { password, passwordHash } = await newPassword(resources)
  return resources.audit.transaction(author, async (tx, note) => {
    // When instances start at once, one of them makes it.
    await lockUsers(tx)
    if ((await listUsers(tx)).length > 0) return undefined
    const user = await insertUser(tx, {
      id: uuidv7(Date.now()),
      username: 'admin',
      email,
      role: 'admin',
      passwordHash,
    })
    if (!user) return undefined
    note('user.create', { username: user.username, role: user.role, bootstrap: true }, user.id)
    return { ...user, password }
  })
}

const isTaken = (username: string) => new AdminError('conflict', `there is a user ${JSON.stringify(username)} already`)

interface UserChange {
  username?: string | undefined
  email?: string | undefined
  enabled?: boolean | undefined
  role?: Role | undefined
  scope?: string[] | undefined
}

export function changeUser(audit: AuditLog, actor: Actor, id: string, wanted: UserChange): Promise<UserRow> {
  return change(audit, actor, async (tx, note) => {
    const before = await requireUser(tx, id)
    const { enabled = before.enabled, role = before.role, username = before.username, email = before.email } = wanted
    // The tags of a registrar who becomes something else are forgotten.
    const { scope = isScoped(role) ? before.scope : [] } = wanted
    requireScope({ role, scope })
    const gives = wanted.enabled === true || !includesAuthority(before, { role, scope })
    if (gives && actor.apiTokenId !== undefined)
      throw new AdminError('forbidden', 'giving rights needs a login; an API token may only take them away')
    const named = { username, email }
    if (actor.apiTokenId !== undefined && (username !== before.username || email !== before.email))
      throw new AdminError('forbidden', 'a change of name or mail address needs a login')
    if (await isUsernameTaken(tx, id, username)) throw isTaken(username)
    const changes = changesOf(before, { ...named, enabled, role, scope })
    if (Object.keys(changes).length === 0) return before
    const after = await updateUser(tx, id, { ...named, enabled, role, scope })
    await requireAnAdmin(tx)
    // A disabled user gets neither sessions nor API tokens back when enabled again.
    if (!enabled) await endAccess(tx, id)
    note('user.update', changes, id)
    return after
  })
}

export function removeUser(audit: AuditLog, actor: Actor, id: string): Promise<void> {
  return change(audit, actor, async (tx, note) => {
    const { username } = await requireUser(tx, id)
    await deleteUser(tx, id)
    await requireAnAdmin(tx)
    note('user.delete', { username }, id)
  })
}

/** Ends every session and API token of the user. */
export async function resetPassword(resources: UserResources, actor: Actor, id: string): Promise<UserWithPassword> {
  const { password, passwordHash } = await newPassword(resources)
  return change(resources.audit, actor, async (tx, note) => {
    await requireUser(tx, id)
    const user = await setPassword(tx, id, passwordHash)
    const tokens = await endAccess(tx, id)
    note('user.reset_password', { revoked_tokens: tokens }, id)
    return { ...user, password }
  })
}

/**
 * A password of the user's own choice, who has just given the current one. Other sessions end.
 * @returns how many
 * @throws AdminError invalid_request for one that is easy to guess
 */
export async function choosePassword(
  { audit, passwords }: Pick<UserResources, 'audit' | 'passwords'>,
  author: SignedIn,
  { id, username, email }: UserRow,
  chosen: string,
): Promise<number> {
  const fault = passwordFault(chosen, [username, email])
  if (fault !== undefined)
    throw new AdminError('invalid_request', `the new password ${fault}`, {
      fields: [{ field: 'new_password', message: fault }],
    })
  const passwordHash = await passwords.hash(chosen)
  return change(audit, author, async (tx, note) => {
    await setPassword(tx, id, passwordHash)
    const ended = await endOtherSessions(tx, id, author.sessionId ?? '')
    note('user.change_password', { ended_sessions: ended }, id)
    return ended
  })
}

/** Removes the passkeys of a user who has lost them. A thief may hold a session or token, so these end, too. */
export function resetSecondFactor(
  audit: AuditLog,
  actor: Actor,
  username: string,
): Promise<{ username: string; passkeys: number }> {
  return change(audit, actor, async (tx, note) => {
    const user = requireFound(await findUserForLogin(tx, username), 'user')
    const passkeys = await deletePasskeysOf(tx, user.id)
    const tokens = await endAccess(tx, user.id)
    note('user.reset_second_factor', { passkeys, revoked_tokens: tokens }, user.id)
    return { username: user.username, passkeys }
  })
}

/** Ends the lock of a username. @returns whether failures were counted */
export function unlockUser(
  audit: AuditLog,
  actor: Actor,
  id: string,
): Promise<{ username: string; unlocked: boolean }> {
  return audit.transaction(actor, async (tx, note) => {
    const { username } = await requireUser(tx, id)
    const unlocked = (await forgetFailures(tx, [usernameSubject(username)])) > 0
    if (unlocked) note('user.unlock', { username }, id)
    return { username, unlocked }
  })
}

/** Ends the lock of an address, with its whole network for IPv6. @returns whether failures were counted */
export function unlockAddress(audit: AuditLog, actor: Actor, address: string): Promise<boolean> {
  return audit.transaction(actor, async (tx, note) => {
    const wasCounted = (await forgetFailures(tx, [addressSubject(address)])) > 0
    if (wasCounted) note('user.unlock', { address: countedAddress(address) })
    return wasCounted
  })
}

/** All of them in one commit. @returns the usernames that are taken, whose users stay as they are */
export function importUsers(audit: AuditLog, actor: Actor, users: readonly ImportedUser[]): Promise<string[]> {
  return audit.transaction(actor, async (tx, note) => {
    const taken: string[] = []
    for (const user of users) {
      const { username, role } = user
      const made = await insertUser(tx, { ...user, id: uuidv7(Date.now()) })
      if (made) note('user.import', { username, role }, made.id)
      else taken.push(username)
    }
    return taken
  })
}

async function newPassword({ passwords, policy }: UserResources) {
  const password = generatePassword(policy.passwordLength)
  return { password, passwordHash: await passwords.hash(password) }
}

/** Locks the users first: a transaction that holds a row would wait for another that waits for the row. */
function change<T>(audit: AuditLog, actor: Actor, work: Work<T>): Promise<T> {
  return audit.transaction(actor, work, lockUsers)
}

export async function requireAnAdmin(tx: Transaction): Promise<void> {
  if ((await countEnabledAdmins(tx)) > 0) return
  throw new AdminError('conflict', 'this is the last enabled admin; make another one first')
}

/** @throws AdminError for a registrar without tags, and for tags of another role */
export function requireScope({ role, scope }: Authority): void {
  if (isScoped(role) === scope.length > 0) return
  throw notRight('body', [{ field: 'scope', message: SCOPE_RULE }])
}

type Changeable = Pick<UserRow, 'username' | 'email' | 'enabled' | 'role' | 'scope'>

export function changesOf(before: Changeable, after: Changeable) {
  const names = ['username', 'email', 'enabled', 'role', 'scope'] as const
  const changed = names.filter((name) => String(before[name]) !== String(after[name]))
  return Object.fromEntries(changed.map((name) => [name, { before: before[name], after: after[name] }]))
}
