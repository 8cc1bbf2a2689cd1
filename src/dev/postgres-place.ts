/**
 * The folder of an embedded PostgreSQL, its replacement when the server's user cannot reach it, and the process that
 * owns it.
 *
 * ```text
 * cluster/       the data; the server's own, mode 0700
 * run/           the Unix socket; the server's own, mode 0700
 * owner.json     which of our processes the server belongs to
 * pg_hba.conf, pg_ident.conf, server.log
 * ```
 *
 * The server has a separate session, so that Ctrl-C does not end it before the service drains. A killed service would
 * leave it running, so each server has a guard. The guard is a shell that reads a pipe from the service and stops the
 * server when the pipe closes. If the guard is killed too, the next start takes the server over.
 *
 * PostgreSQL refuses to run as root. An ordinary user runs it under their own account. Root runs it as the owner of
 * existing data, or as the system user `postgres`, which is created if missing.
 */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { userInfo } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { PATHS } from '../installation/places.ts'
import { identifyProcess, isStillRunning, type ProcessIdentity } from '../shared/lib/processes.ts'

export interface PostgresPlace {
  account: PostgresAccount
  folder: string
  cluster: string
}

/** Used only by root, for files that the server's user could not read in root's own folders. */
export const SYSTEM_FOLDER = PATHS.serviceState

/** The service's role owns its database and may create others for tests, but is no superuser. */
export const SERVICE_ROLE = 'chancery'
export const SUPERUSER_ROLE = 'postgres'

/** sockaddr_un holds 108 bytes with the final zero (unix(7)); longer paths are truncated or refused. */
const MAX_SOCKET_PATH_BYTES = 107

/** The socket's file name contains a port. The folder is private, so PostgreSQL's default never collides. */
export const SOCKET_PORT = 5432

/** Creates the folder or its replacement, and finds the account of the server there. */
export function preparePlace(dataDir: string, log: (line: string) => void): PostgresPlace {
  const wanted = path.resolve(dataDir)
  const isNew = makePassable(wanted)
  const account = requirePostgresAccount(path.join(wanted, 'cluster'), log)
  if (succeedsAs(account, 'test', ['-x', wanted]))
    return { account, folder: wanted, cluster: path.join(wanted, 'cluster') }

  // The folder lies below a private home, which only root can enter. The digest separates two checkouts.
  const digest = createHash('sha256').update(wanted).digest('hex').slice(0, 8)
  const folder = path.join(SYSTEM_FOLDER, `${path.basename(wanted)}-${digest}`)
  if (isNew) rmdirSync(wanted)
  if (!existsSync(folder)) log(`the database goes to ${folder}, because the server's user cannot reach ${wanted}`)
  makePassable(SYSTEM_FOLDER)
  makePassable(folder)
  const cluster = path.join(folder, 'cluster')
  return { account: requirePostgresAccount(cluster, log), folder, cluster }
}

/** Creates a folder that other users may traverse, whatever the umask. An existing folder keeps its mode. */
export function makePassable(folder: string): boolean {
  const isNew = mkdirSync(folder, { recursive: true }) !== undefined
  if (isNew) chmodSync(folder, 0o755)
  return isNew
}

export const usualSocketFolder = ({ folder }: Pick<PostgresPlace, 'folder'>) => path.join(folder, 'run')

/** Creates the socket folder: `run`, or a short one under /tmp when the path is too long for a socket. */
export function prepareSocketFolder({ account, folder }: PostgresPlace): string {
  const usual = usualSocketFolder({ folder })
  const fits = Buffer.byteLength(path.join(usual, `.s.PGSQL.${SOCKET_PORT}`)) <= MAX_SOCKET_PATH_BYTES
  const socketFolder = fits ? usual : mkdtempSync('/tmp/chancery-')
  mkdirSync(socketFolder, { recursive: true, mode: 0o700 })
  chmodSync(socketFolder, 0o700)
  giveTo(account, socketFolder)
  return socketFolder
}

/**
 * Removes a socket folder other than `run`. Only our own files are deleted, because the server's user may add others.
 */
export function removeSocketFolder({ folder }: PostgresPlace, socketFolder: string): void {
  if (path.dirname(socketFolder) === folder) return
  const socket = path.join(socketFolder, `.s.PGSQL.${SOCKET_PORT}`)
  try {
    for (const file of [socket, `${socket}.lock`]) rmSync(file, { force: true })
    rmdirSync(socketFolder)
  } catch {
    // The folder is not empty, or already gone.
  }
}

/**
 * Admits only the user that runs Chancery, proved by the kernel (`peer`), as service or superuser.
 * There is no password, and other users cannot reach the socket.
 */
export function writeAccessRules({ account, folder }: PostgresPlace): { hbaFile: string; identFile: string } {
  const hbaFile = path.join(folder, 'pg_hba.conf')
  const identFile = path.join(folder, 'pg_ident.conf')
  const user = `"${account.callerName.replaceAll('"', '""')}"`
  replaceFile(hbaFile, 'local all all peer map=chancery\n', 0o644)
  replaceFile(identFile, [SERVICE_ROLE, SUPERUSER_ROLE].map((role) => `chancery ${user} ${role}\n`).join(''), 0o644)
  return { hbaFile, identFile }
}

/** Writes a temporary file and renames it, so that a reader sees either the old or the new text. */
export function replaceFile(file: string, text: string, mode: number): void {
  const half = `${file}.${process.pid}`
  writeFileSync(half, text, { mode })
  chmodSync(half, mode)
  renameSync(half, file)
}

const MAX_LOG_BYTES = 16 * 1024 * 1024

/** Prepares the server's log file and moves a large one aside. The server's account owns it. */
export function prepareLogFile({ account, folder }: PostgresPlace): string {
  const file = path.join(folder, 'server.log')
  const existing = statSync(file, { throwIfNoEntry: false })
  if (existing && existing.size > MAX_LOG_BYTES) renameSync(file, `${file}.1`)
  writeFileSync(file, '', { flag: 'a', mode: 0o640 })
  giveTo(account, file)
  return file
}

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

interface Owner {
  process: ProcessIdentity
  guard: ProcessIdentity | undefined
  /** The socket's folder, recorded because a successor must not trust the server's own statement. */
  socketFolder: string | undefined
}

const fileOf = (place: PostgresPlace) => path.join(place.folder, 'owner.json')

function readOwner(place: PostgresPlace): Owner | undefined {
  try {
    return JSON.parse(readFileSync(fileOf(place), 'utf8')) as Owner
  } catch {
    // The file is absent, or a machine crash truncated it. In both cases its writer is dead.
    return undefined
  }
}

function writeOwner(place: PostgresPlace, rest: Omit<Owner, 'process'>): void {
  const owner: Owner = { process: requireSelf(), ...rest }
  replaceFile(fileOf(place), JSON.stringify(owner), 0o644)
}

function requireSelf(): ProcessIdentity {
  return identifyProcess(process.pid) ?? { pid: process.pid, startedAt: '' }
}

/**
 * Makes this process the owner of the place. If the former owner was killed, waits for its guard to stop the server.
 *
 * @returns `hadOwner`, which tells whether a server found there is ours, and its socket folder
 * @throws Error while another process owns it
 */
export async function claimPlace(
  place: PostgresPlace,
): Promise<{ hadOwner: boolean; socketFolder: string | undefined }> {
  const former = readOwner(place)
  if (former && isStillRunning(former.process)) {
    const who = former.process.pid === process.pid ? 'this process' : `process ${former.process.pid}`
    throw new Error(`the database in ${place.folder} is in use by ${who}; stop it first, or use another data directory`)
  }
  while (former?.guard && isStillRunning(former.guard)) await sleep(50)
  const socketFolder = former?.socketFolder
  writeOwner(place, { guard: undefined, socketFolder })
  return { hadOwner: former !== undefined, socketFolder }
}

/** Gives up the place, unless it already has a new owner. */
export function releasePlace(place: PostgresPlace): void {
  if (readOwner(place)?.process.pid === process.pid) rmSync(fileOf(place), { force: true })
}

/**
 * The guard waits for the pipe to close, requests a fast shutdown, and stays until the server has
 * ended. It gives up after 60 s, so that a waiting start never hangs.
 */
const GUARD_SCRIPT = `
read -r _
kill -INT "$1" || exit 0
tries=600
while [ -e "$2" ] && kill -0 "$1" 2>/dev/null && [ $tries -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
`

/** Starts and records the guard of this server. It does not keep our event loop alive. */
export function startGuard(
  place: PostgresPlace,
  account: PostgresAccount,
  serverPid: number,
  socketFolder: string,
): ChildProcess {
  const pidFile = path.join(place.cluster, 'postmaster.pid')
  const guard = spawn('/bin/sh', ['-c', GUARD_SCRIPT, 'chancery-guard', String(serverPid), pidFile], {
    ...account.runAs,
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  guard.unref()
  // The pipe is a socket at run time and would keep the process alive; the type hides `unref`.
  ;(guard.stdin as unknown as { unref(): void }).unref()
  // Nothing is written to the pipe. Without a listener an error would end the process.
  guard.stdin?.on('error', () => undefined)
  writeOwner(place, { guard: guard.pid === undefined ? undefined : identifyProcess(guard.pid), socketFolder })
  return guard
}
