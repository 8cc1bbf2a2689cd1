/**
 * The folder of an embedded PostgreSQL: what lies where, and which folder it is when the server's user cannot reach the
 * one that was asked for.
 *
 * ```text
 * cluster/       the data; the server's own, mode 0700
 * run/           the Unix socket; the server's own, mode 0700
 * owner.json     which of our processes the server belongs to
 * pg_hba.conf, pg_ident.conf, server.log
 * ```
 */

import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmdirSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { giveTo, type PostgresAccount, requirePostgresAccount, succeedsAs } from './postgres-account.ts'

export interface PostgresPlace {
  account: PostgresAccount
  folder: string
  cluster: string
}

/** For root only: where files go that must be readable by the server's user when root's own folders are not. */
export const SYSTEM_FOLDER = '/var/lib/chancery'

/** The service's role: owner of its database and allowed to create others (tests do), but no superuser. */
export const SERVICE_ROLE = 'chancery'
export const SUPERUSER_ROLE = 'postgres'

/** sockaddr_un holds 108 bytes with the closing zero (unix(7)); longer paths are cut or refused. */
const MAX_SOCKET_PATH_BYTES = 107

/** The socket's file name carries a port number; the folder is private, so PostgreSQL's usual one never collides. */
export const SOCKET_PORT = 5432

/** Creates the folder, or the one that stands in for it, and says who runs the server there. */
export function preparePlace(dataDir: string, log: (line: string) => void): PostgresPlace {
  const wanted = path.resolve(dataDir)
  const isNew = makePassable(wanted)
  const account = requirePostgresAccount(path.join(wanted, 'cluster'), log)
  if (succeedsAs(account, 'test', ['-x', wanted]))
    return { account, folder: wanted, cluster: path.join(wanted, 'cluster') }

  // A folder below a private home: root reaches it, the server's user does not. The name keeps two checkouts apart.
  const digest = createHash('sha256').update(wanted).digest('hex').slice(0, 8)
  const folder = path.join(SYSTEM_FOLDER, `${path.basename(wanted)}-${digest}`)
  if (isNew) rmdirSync(wanted)
  if (!existsSync(folder)) log(`the database goes to ${folder}, because the server's user cannot reach ${wanted}`)
  makePassable(SYSTEM_FOLDER)
  makePassable(folder)
  const cluster = path.join(folder, 'cluster')
  return { account: requirePostgresAccount(cluster, log), folder, cluster }
}

/** Creates a folder that other users may pass through, whatever the umask; one that exists keeps its mode. */
export function makePassable(folder: string): boolean {
  const isNew = mkdirSync(folder, { recursive: true }) !== undefined
  if (isNew) chmodSync(folder, 0o755)
  return isNew
}

/** The folder of the socket: `run`, or a short one under /tmp when the path would be too long for a socket. */
export function prepareSocketFolder({ account, folder }: PostgresPlace): string {
  const usual = path.join(folder, 'run')
  const fits = Buffer.byteLength(path.join(usual, `.s.PGSQL.${SOCKET_PORT}`)) <= MAX_SOCKET_PATH_BYTES
  const socketFolder = fits ? usual : mkdtempSync('/tmp/chancery-')
  mkdirSync(socketFolder, { recursive: true, mode: 0o700 })
  chmodSync(socketFolder, 0o700)
  giveTo(account, socketFolder)
  return socketFolder
}

/**
 * Who may connect: the user that runs Chancery, proved by the kernel (`peer`), as the service or as superuser. There is no
 * password to keep, and nobody else gets as far as the socket.
 */
export function writeAccessRules({ account, folder }: PostgresPlace): { hbaFile: string; identFile: string } {
  const hbaFile = path.join(folder, 'pg_hba.conf')
  const identFile = path.join(folder, 'pg_ident.conf')
  const user = `"${account.callerName.replaceAll('"', '""')}"`
  replaceFile(hbaFile, 'local all all peer map=chancery\n', 0o644)
  replaceFile(identFile, [SERVICE_ROLE, SUPERUSER_ROLE].map((role) => `chancery ${user} ${role}\n`).join(''), 0o644)
  return { hbaFile, identFile }
}

/** Writes beside the file and renames, so that a reader sees the old text or the new one. */
export function replaceFile(file: string, text: string, mode: number): void {
  const half = `${file}.${process.pid}`
  writeFileSync(half, text, { mode })
  chmodSync(half, mode)
  renameSync(half, file)
}

const MAX_LOG_BYTES = 16 * 1024 * 1024

/** The server's log file, moved aside once when it has grown; it is the server's own so that either user can go on with it. */
export function prepareLogFile({ account, folder }: PostgresPlace): string {
  const file = path.join(folder, 'server.log')
  const existing = statSync(file, { throwIfNoEntry: false })
  if (existing && existing.size > MAX_LOG_BYTES) renameSync(file, `${file}.1`)
  writeFileSync(file, '', { flag: 'a', mode: 0o640 })
  giveTo(account, file)
  return file
}
