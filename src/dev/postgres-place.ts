/**
 * The folder of an embedded PostgreSQL, and its replacement when the server's user cannot reach it.
 *
 * ```text
 * cluster/       the data; the server's own, mode 0700
 * run/           the Unix socket; the server's own, mode 0700
 * owner.json     which of our processes the server belongs to
 * pg_hba.conf, pg_ident.conf, server.log
 * ```
 */

import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { PATHS } from '../installation/places.ts'
import { giveTo, type PostgresAccount, requirePostgresAccount, succeedsAs } from './postgres-account.ts'

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

/**
 * sockaddr_un holds 108 bytes with the final zero (unix(7)); longer paths are truncated or refused.
 */
const MAX_SOCKET_PATH_BYTES = 107

/**
 * The socket's file name contains a port. The folder is private, so PostgreSQL's default never
 * collides.
 */
export const SOCKET_PORT = 5432

/** Creates the folder or its replacement, and finds the account of the server there. */
export function preparePlace(dataDir: string, log: (line: string) => void): PostgresPlace {
  const wanted = path.resolve(dataDir)
  const isNew = makePassable(wanted)
  const account = requirePostgresAccount(path.join(wanted, 'cluster'), log)
  if (succeedsAs(account, 'test', ['-x', wanted]))
    return { account, folder: wanted, cluster: path.join(wanted, 'cluster') }

  // The folder lies below a private home, which only root can enter. The digest separates two
  // checkouts.
  const digest = createHash('sha256').update(wanted).digest('hex').slice(0, 8)
  const folder = path.join(SYSTEM_FOLDER, `${path.basename(wanted)}-${digest}`)
  if (isNew) rmdirSync(wanted)
  if (!existsSync(folder)) log(`the database goes to ${folder}, because the server's user cannot reach ${wanted}`)
  makePassable(SYSTEM_FOLDER)
  makePassable(folder)
  const cluster = path.join(folder, 'cluster')
  return { account: requirePostgresAccount(cluster, log), folder, cluster }
}

/**
 * Creates a folder that other users may traverse, whatever the umask. An existing folder keeps its
 * mode.
 */
export function makePassable(folder: string): boolean {
  const isNew = mkdirSync(folder, { recursive: true }) !== undefined
  if (isNew) chmodSync(folder, 0o755)
  return isNew
}

export const usualSocketFolder = ({ folder }: Pick<PostgresPlace, 'folder'>) => path.join(folder, 'run')

/**
 * Creates the socket folder: `run`, or a short one under /tmp when the path is too long for a
 * socket.
 */
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
 * Removes a socket folder other than `run`. Only our own files are deleted, because the server's
 * user may add others.
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
