/** `chancery users …` and `chancery admin create-user`: administrators. */

import { isIP } from 'node:net'
import type { Config } from '../../config/schema.ts'
import { isMailAddress, isUsername, MAIL_RULE, type Role, USERNAME_RULE } from '../../domain/administrator.ts'
import { PasswordHasher } from '../../services/admin/passwords.ts'
import { Users } from '../../services/admin/users.ts'
import { adminSettings } from '../../settings/admin.ts'
import { UsageError } from '../../shared/command-line/options.ts'
import type { UserRow } from '../../store/admin/user-store.ts'
import { tableOf } from '../table.ts'
import { CommandError } from '../values.ts'
import { type Administration, withAdministration } from './administration.ts'
import { readUserFile } from './user-file.ts'

interface NewUser {
  username: string
  /** `admin_api.initial_admin_email` when absent. */
  email: string | undefined
  role: Role
  json: boolean
}

const withUsers = <T>(config: Config, work: (users: Users, actor: Administration['actor']) => Promise<T>): Promise<T> =>
  withAdministration(config, ({ db, audit, actor }) => {
    const { passwordLength } = adminSettings(config)
    return work(new Users({ db, audit, passwords: new PasswordHasher(), passwordLength }), actor)
  })

export async function createUser(config: Config, wanted: NewUser): Promise<number> {
  const { username, role, json } = wanted
  const email = wanted.email ?? config.admin_api.initial_admin_email
  if (!isUsername(username)) throw new CommandError(`--username ${USERNAME_RULE}`)
  if (email === null) throw new CommandError('--email is missing, and so is admin_api.initial_admin_email')
  if (!isMailAddress(email)) throw new CommandError(`--email ${MAIL_RULE}`)
  const made = await withUsers(config, (users, actor) => users.create(actor, { username, email, role }))
  return printPassword(made, json)
}

export async function listUsers(config: Config, json: boolean): Promise<number> {
  const rows = await withUsers(config, (users) => users.list())
  if (json) console.log(JSON.stringify({ users: rows }, null, 2))
  else if (rows.length === 0) console.error('no users')
  else
    console.log(
      tableOf(['username', 'role', 'access', 'last login', 'e-mail'], (user: UserRow) => [
        ...[user.username, user.role, user.enabled ? 'enabled' : 'disabled'],
        ...[user.last_login_at?.toISOString() ?? '-', user.email],
      ])(rows),
    )
  return 0
}

export async function updateUser(
  config: Config,
  username: string,
  { json, ...change }: { role: Role | undefined; enabled: boolean | undefined; json: boolean },
): Promise<number> {
  const user = await withUsers(config, async (users, actor) =>
    users.update(actor, (await users.findByName(username)).id, change),
  )
  if (json) console.log(JSON.stringify(user, null, 2))
  else console.log(`${user.username} is ${user.role}, ${user.enabled ? 'enabled' : 'disabled'}`)
  return 0
}

export async function deleteUser(config: Config, username: string, json: boolean): Promise<number> {
  await withUsers(config, async (users, actor) => users.delete(actor, (await users.findByName(username)).id))
  console.log(json ? JSON.stringify({ deleted: username }) : `${username} is deleted`)
  return 0
}

export async function resetPassword(config: Config, username: string, json: boolean): Promise<number> {
  const made = await withUsers(config, async (users, actor) =>
    users.resetPassword(actor, (await users.findByName(username)).id),
  )
  return printPassword(made, json)
}

export async function unlockUser(config: Config, username: string, json: boolean): Promise<number> {
  const unlocked = await withUsers(config, async (users, actor) =>
    users.unlock(actor, await users.findByName(username)),
  )
  if (json) console.log(JSON.stringify({ username, unlocked }))
  else console.log(unlocked ? `${username} may log in again` : `${username} has no failed logins`)
  return 0
}

export async function unlockAddress(config: Config, address: string, json: boolean): Promise<number> {
  if (isIP(address) === 0) throw new UsageError(`${JSON.stringify(address)} is no IP address`)
  const unlocked = await withUsers(config, (users, actor) => users.unlockAddress(actor, address))
  if (json) console.log(JSON.stringify({ address, unlocked }))
  else console.log(unlocked ? `users may log in again from ${address}` : `${address} has no failed logins`)
  return 0
}

export async function importUsers(config: Config, file: string, json: boolean): Promise<number> {
  const wanted = readUserFile(file)
  const taken = await withUsers(config, (users, actor) => users.import(actor, wanted))
  const imported = wanted.length - taken.length
  if (json) console.log(JSON.stringify({ imported, taken }))
  else {
    console.log(`${imported} ${imported === 1 ? 'user is' : 'users are'} imported`)
    for (const username of taken) console.error(`${username} is there already, and stays as it is`)
  }
  return 0
}

function printPassword({ id, username, role, password }: UserRow & { password: string }, json: boolean): number {
  if (json) console.log(JSON.stringify({ id, username, role, password }))
  else {
    console.log(`username  ${username}\nrole      ${role}\npassword  ${password}`)
    process.stderr.write('The password is not shown again.\n')
  }
  return 0
}
