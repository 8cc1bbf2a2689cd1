/**
 * The operating system account that the embedded PostgreSQL runs under.
 *
 * PostgreSQL refuses to run as root. An ordinary user runs it as themselves; root runs it as the owner of the data that is
 * already there, or else as the system user `postgres`, which is created if the system has none.
 */

import { spawnSync } from 'node:child_process'
import { chownSync, statSync } from 'node:fs'
import { userInfo } from 'node:os'

export interface PostgresAccount {
  /** Name of the user this process runs as; the one that `peer` authentication lets in. */
  callerName: string
  /** Set when the server must run as somebody else, that is, when the caller is root. */
  runAs: { uid: number; gid: number } | undefined
}

const SERVER_USER = 'postgres'

/**
 * Finds the account for the data in `cluster`, which need not exist yet.
 * @throws Error when the data belongs to another user, or root has no account to give the server to
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

/** Runs a short program as the server's account and says whether it succeeded: the exact test of what that user may do. */
export function succeedsAs(account: PostgresAccount, file: string, args: readonly string[]): boolean {
  return spawnSync(file, args, { ...account.runAs, cwd: '/', stdio: 'ignore' }).status === 0
}

/** Makes a file or folder that the caller created the server's own. */
export function giveTo(account: PostgresAccount, file: string): void {
  if (account.runAs) chownSync(file, account.runAs.uid, account.runAs.gid)
}

/** PostgreSQL and `peer` both look the user up by number, so a number without a name is of no use here. */
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
