/** Administrators: create, change, delete, new passwords. The last enabled admin stays one. */

import type { DatabasePool } from 'slonik'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor, Role } from '../../domain/administrator.ts'
import { addressSubject, countedAddress, usernameSubject } from '../../domain/rate-limit.ts'
import { uuidv7 } from '../../shared/lib/uuid.ts'
import {
  countEnabledAdmins,
  deleteUser,
  findUser,
  insertUser,
  listUsers,
  lockUsers,
  pagesOfUsers,
  setPassword,
  type UserRow,
  updateUser,
} from '../../store/user-store.ts'
import type { AuditLog, Transaction, Work } from '../audit/audit-log.ts'
import { type PageOfList, type PageRequest, readPageOf } from '../list-pages.ts'
import { generatePassword, type PasswordHasher } from './passwords.ts'
import { deleteSessionsOf, forgetFailures } from './session-store.ts'
import { revokeApiTokensOf } from './token-store.ts'

export interface UsersOptions {
  db: DatabasePool
  audit: AuditLog
  passwords: PasswordHasher
  passwordLength: number
}

export interface WantedUser {
  username: string
  email: string
  role: Role
}

/** The password is in this value only; nothing can read it again. */
export type UserWithPassword = UserRow & { password: string }

/** A user of another service, with the hash that it kept. */
export interface ImportedUser extends WantedUser {
  enabled: boolean
  passwordHash: string
}

export class Users {
  readonly #options: UsersOptions

  constructor(options: UsersOptions) {
    this.#options = options
  }

  /** All. */
  list(): Promise<readonly UserRow[]> {
    return listUsers(this.#options.db)
  }

  page(request: PageRequest, username?: string): Promise<PageOfList<UserRow>> {
    return readPageOf(pagesOfUsers(this.#options.db, username), request)
  }

  async find(id: string): Promise<UserRow> {
    return (await findUser(this.#options.db, id)) ?? Promise.reject(notFound('user'))
  }

  async create(actor: Actor, { username, email, role }: WantedUser): Promise<UserWithPassword> {
    const { password, passwordHash } = await this.#newPassword()
    return this.#change(actor, async (tx, note) => {
      const user = await insertUser(tx, { id: uuidv7(Date.now()), username, email, role, passwordHash })
      if (!user) throw new AdminError('conflict', `there is a user ${JSON.stringify(username)} already`)
      note('user.create', { username, role }, user.id)
      return { ...user, password }
    })
  }

  /**
   * Makes the first administrator, `admin`.
   * @returns undefined when there is a user already
   */
  async bootstrap(author: Actor, email: string): Promise<UserWithPassword | undefined> {
    const { db, audit } = this.#options
    if ((await listUsers(db)).length > 0) return undefined
    const { password, passwordHash } = await this.#newPassword()
    return audit.transaction(author, async (tx, note) => {
      // Of instances that start at once, one makes it.
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

  update(actor: Actor, id: string, change: { enabled?: boolean | undefined; role?: Role | undefined }) {
    return this.#change(actor, async (tx, note) => {
      const before = await this.#require(tx, id)
      const { enabled = before.enabled, role = before.role } = change
      if (enabled === before.enabled && role === before.role) return before
      const after = await updateUser(tx, id, { enabled, role })
      await requireAnAdmin(tx)
      // A disabled user gets neither sessions nor API tokens back when enabled again.
      if (!enabled) await this.#endAccess(tx, id)
      note('user.update', changesOf(before, after), id)
      return after
    })
  }

  delete(actor: Actor, id: string): Promise<void> {
    return this.#change(actor, async (tx, note) => {
      const { username } = await this.#require(tx, id)
      await deleteUser(tx, id)
      await requireAnAdmin(tx)
      note('user.delete', { username }, id)
    })
  }

  /** Ends every session and API token of the user. */
  async resetPassword(actor: Actor, id: string): Promise<UserWithPassword> {
    const { password, passwordHash } = await this.#newPassword()
    return this.#change(actor, async (tx, note) => {
      await this.#require(tx, id)
      const user = await setPassword(tx, id, passwordHash)
      const tokens = await this.#endAccess(tx, id)
      note('user.reset_password', { revoked_tokens: tokens }, id)
      return { ...user, password }
    })
  }

  /** Ends the lock of a username. @returns whether failures were counted */
  unlock(actor: Actor, id: string): Promise<{ username: string; unlocked: boolean }> {
    return this.#options.audit.transaction(actor, async (tx, note) => {
      const { username } = await this.#require(tx, id)
      const unlocked = (await forgetFailures(tx, [usernameSubject(username)])) > 0
      if (unlocked) note('user.unlock', { username }, id)
      return { username, unlocked }
    })
  }

  /** Ends the lock of an address, with its whole network for IPv6. @returns whether failures were counted */
  unlockAddress(actor: Actor, address: string): Promise<boolean> {
    return this.#options.audit.transaction(actor, async (tx, note) => {
      const wasCounted = (await forgetFailures(tx, [addressSubject(address)])) > 0
      if (wasCounted) note('user.unlock', { address: countedAddress(address) })
      return wasCounted
    })
  }

  /** All of them in one commit. @returns the usernames that are taken, whose users stay as they are */
  import(actor: Actor, users: readonly ImportedUser[]): Promise<string[]> {
    return this.#options.audit.transaction(actor, async (tx, note) => {
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

  /** @returns how many API tokens it revoked */
  async #endAccess(tx: Transaction, id: string): Promise<number> {
    await deleteSessionsOf(tx, id)
    return revokeApiTokensOf(tx, id)
  }

  async #newPassword() {
    const password = generatePassword(this.#options.passwordLength)
    return { password, passwordHash: await this.#options.passwords.hash(password) }
  }

  /** Locks the users first: whoever holds a row of them would wait for another who waits for it. */
  #change<T>(actor: Actor, work: Work<T>): Promise<T> {
    return this.#options.audit.transaction(actor, work, lockUsers)
  }

  async #require(tx: Transaction, id: string): Promise<UserRow> {
    return (await findUser(tx, id)) ?? Promise.reject(notFound('user'))
  }
}

async function requireAnAdmin(tx: Transaction): Promise<void> {
  if ((await countEnabledAdmins(tx)) > 0) return
  throw new AdminError('conflict', 'this is the last enabled admin; make another one first')
}

function changesOf(before: UserRow, after: UserRow) {
  return {
    ...(before.enabled !== after.enabled && { enabled: { before: before.enabled, after: after.enabled } }),
    ...(before.role !== after.role && { role: { before: before.role, after: after.role } }),
  }
}
