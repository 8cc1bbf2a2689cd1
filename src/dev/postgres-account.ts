/**
 * The operating system account of the embedded PostgreSQL.
 *
 * PostgreSQL refuses to run as root. An ordinary user runs it under their own account. Root runs it
 * as the owner of existing data, or as the system user `postgres`, created if missing.
 */

import { spawnSync } from 'node:child_process'
import { chownSync, statSync } from 'node:fs'
import { userInfo } from 'node:os'

export interface PostgresAccount {
  /** The user of this process; `peer` authentication accepts only this name. */
  callerName: string
  /** The server's account, set only when the caller is root. */
  runAs: { uid: number; gid: number } | undefined
}

const SERVER_USER = 'postgres'

/**
 * Finds the account for the data in `cluster`, which may not exist yet.
 *
 * @throws Error when the data belongs to another user, or root finds no account for the server
 */
export function requirePostgresAccount(cluster: string, log: (line: string) => void): PostgresAccount {
  const callerName = requireUserName()
  const existing = statSync(cluster, { throwIfNoEntry: false })
  const uid = process.getuid?.()
  if (uid !== 0) {
    if (existing && uid !== undefined && existing.uid !== uid) {
      throw new Error(
        `the database in ${cluster} belongs to user id ${existing.uid}; start as that user or as root, or use another data directory`,
      )
    }
    return { callerName, runAs: undefined }
  }
  if (existing && existing.uid !== 0) return { callerName, runAs: { uid: existing.uid, gid: existing.gid } }
  return { callerName, runAs: requireServerUser(log) }
}

/** Tests a right of the server's account exactly: runs a short program and reports its success. */
export function succeedsAs(account: PostgresAccount, file: string, args: readonly string[]): boolean {
  return spawnSync(file, args, { ...account.runAs, cwd: '/', stdio: 'ignore' }).status === 0
}

/** Makes the server's account the owner of a file or folder. */
export function giveTo(account: PostgresAccount, file: string): void {
  if (account.runAs) chownSync(file, account.runAs.uid, account.runAs.gid)
}

/** PostgreSQL and `peer` look the user up by number, so a number without a name does not work. */
function requireUserName(): string {
  try {
    return userInfo().username
  } catch (cause) {
    const sentence = `the embedded PostgreSQL needs a user with a name, but user id ${process.getuid?.()} is not in /etc/passwd`
    throw new Error(`${sentence}; use another user, or configure a database of your own`, { cause })
  }
}

function requireServerUser(log: (line: string) => void): { uid: number; gid: number } {
  if (idOf('-u') === undefined) {
    createServerUser()
    log(`created the system user ${SERVER_USER}, because PostgreSQL does not run as root`)
  }
  const [uid, gid] = [idOf('-u'), idOf('-g')]
  if (!uid || gid === undefined) {
    throw new Error(`PostgreSQL does not run as root, and the system user "${SERVER_USER}" cannot be used instead`)
  }
  return { uid, gid }
}

function idOf(option: '-u' | '-g'): number | undefined {
  const { status, stdout } = spawnSync('id', [option, SERVER_USER], { encoding: 'utf8' })
  return status === 0 ? Number(stdout) : undefined
}

function createServerUser(): void {
  const identity = ['--system', '--user-group', '--comment', 'PostgreSQL', '--shell', '/usr/sbin/nologin']
  const home = ['--no-create-home', '--home-dir', '/nonexistent']
  const { status, stderr, error } = spawnSync('useradd', [...identity, ...home, SERVER_USER], { encoding: 'utf8' })
  if (status === 0) return
  const reason = (error?.message ?? stderr).trim()
  throw new Error(
    `PostgreSQL does not run as root, and the system user "${SERVER_USER}" could not be created (${reason}); run as an ordinary user`,
  )
}
