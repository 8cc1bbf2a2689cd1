/** The data directory of the embedded PostgreSQL, which has one major version, and the settings of its server. */

import { spawnSync } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, readFileSync, renameSync, rmdirSync } from 'node:fs'
import path from 'node:path'
import type { PostgresBinaries } from './postgres-binaries.ts'
import { giveTo, type PostgresAccount, type PostgresPlace, SERVICE_ROLE, SUPERUSER_ROLE } from './postgres-place.ts'

export type PostgresSettings = Readonly<Record<string, string | number>>

/**
 * The settings of every embedded server; callers may override each by name. They are command-line options, so they also
 * apply to existing data.
 */
export const EMBEDDED_SETTINGS: PostgresSettings = {
  // A certificate that a client holds must survive a power cut. These are PostgreSQL's defaults,
  // listed here so that nobody removes them for an embedded server.
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',

  // Covers four services (20 connections each by default), a migration, psql and some reserve.
  max_connections: 100,

  // Touched within minutes of load, and then held. What they lack, the system's cache has.
  shared_buffers: '32MB',

  // Nothing replicates from this server, so the log omits the data of replicas.
  wal_level: 'minimal',
  max_wal_senders: 0,
  max_logical_replication_workers: 0,
  // Checkpoints come every 5 minutes, or after 0.5 GB of log (1 GB / 1.9), reached above 300 certificates/s. Full pages
  // in the log keep recovery within seconds (START_TIMEOUT_MS in postgres.ts).
  max_wal_size: '1GB',
  checkpoint_timeout: '5min',

  // Every statement is short, so parallel workers cost more than running it. They would also need /dev/shm, which is small in containers.
  max_parallel_workers_per_gather: 0,
  // PostgreSQL's default of 4 is meant for spinning disks.
  random_page_cost: 1.1,

  timezone: 'UTC',
  log_timezone: 'UTC',
  log_line_prefix: '%m [%p] ',
  log_min_messages: 'warning',
  log_checkpoints: 'off',
}

/** Renders `-c name=value` for each setting. */
export function renderSettings(settings: PostgresSettings): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

/** The built-in C.UTF-8 sorts the same on every system; libc and ICU locales change with the system. */
const LOCALE = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8']

/** Creates the service's role and database as superuser in single-user mode. One command per line. */
const FIRST_COMMANDS = [
  `CREATE ROLE ${SERVICE_ROLE} LOGIN CREATEDB`,
  `CREATE DATABASE ${SERVICE_ROLE} OWNER ${SERVICE_ROLE}`,
]

/** The environment of every PostgreSQL program: only our PATH, and messages in English. */
export const POSTGRES_ENVIRONMENT = { PATH: process.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C' }

/**
 * Creates the data directory unless it exists. It gets its name only when it is complete.
 *
 * @param durable false skips the flush to disk, for temporary data
 * @returns true when it was created now
 * @throws Error when another major version created the existing one, or PostgreSQL fails
 */
export function prepareCluster(place: PostgresPlace, binaries: PostgresBinaries, durable: boolean): boolean {
  const { account, cluster } = place
  if (existsSync(cluster)) {
    checkVersion(cluster, binaries.majorVersion)
    return false
  }
  const half = `${cluster}.new`
  removeHalf(half)
  mkdirSync(half, { mode: 0o700 })
  giveTo(account, half)
  const roles = [`--username=${SUPERUSER_ROLE}`, '--auth-local=peer', '--auth-host=reject']
  const sync = durable ? [] : ['--no-sync']
  run(account, binaries.initdb, ['-D', half, ...roles, ...LOCALE, ...sync, '--no-instructions'])
  // Without this option single-user PostgreSQL exits with 0 even after a failed command.
  const options = ['-c', 'exit_on_error=on', '-c', `fsync=${durable ? 'on' : 'off'}`]
  run(account, binaries.postgres, ['--single', '-D', half, ...options, 'postgres'], `${FIRST_COMMANDS.join('\n')}\n`)
  renameSync(half, cluster)
  return true
}

/** Runs as the folder's owner: if root deleted, the server's user could swap a folder for a link meanwhile. */
function removeHalf(half: string): void {
  const owner = lstatSync(half, { throwIfNoEntry: false })
  if (!owner) return
  const asOwner = process.getuid?.() === 0 ? { uid: owner.uid, gid: owner.gid } : {}
  spawnSync('rm', ['-rf', half], { ...asOwner, cwd: '/', stdio: 'ignore' })
  // The owner cannot remove the folder itself when root owns its parent.
  if (existsSync(half)) rmdirSync(half)
}

function checkVersion(cluster: string, ours: number): void {
  const theirs = readFileSync(path.join(cluster, 'PG_VERSION'), 'utf8').trim()
  if (theirs === String(ours)) return
  throw new Error(
    `the database in ${cluster} was made by PostgreSQL ${theirs}, this release brings PostgreSQL ${ours}; ` +
      'dump it with the release that made it (pg_dump) and load the dump into a new data directory, or move it away to start anew',
  )
}

function run(account: PostgresAccount, file: string, args: readonly string[], input = ''): void {
  const options = { ...account.runAs, cwd: '/', env: POSTGRES_ENVIRONMENT, input, encoding: 'utf8' } as const
  const { status, signal, stdout, stderr, error } = spawnSync(file, args, options)
  if (status === 0) return
  const output = error?.message ?? `${stdout}${stderr}`.trim()
  throw new Error(`${path.basename(file)} failed with ${signal ?? `exit code ${status}`}:\n${output}`)
}
