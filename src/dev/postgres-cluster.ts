/** Making a new PostgreSQL data directory, and refusing one that this PostgreSQL cannot open. */

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { giveTo, type PostgresAccount } from './postgres-account.ts'
import type { PostgresBinaries } from './postgres-binaries.ts'
import { type PostgresPlace, SERVICE_ROLE, SUPERUSER_ROLE } from './postgres-place.ts'

/** The built-in C.UTF-8 sorts alike on every system; a locale of libc or ICU changes with the operating system. */
const LOCALE = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8']

/** Runs once, as superuser without a server: the service's role and database. One command per line. */
const FIRST_COMMANDS = [
  `CREATE ROLE ${SERVICE_ROLE} LOGIN CREATEDB`,
  `CREATE DATABASE ${SERVICE_ROLE} OWNER ${SERVICE_ROLE}`,
]

/** The environment of every PostgreSQL program: nothing of ours but the path, and messages in one known language. */
export const POSTGRES_ENVIRONMENT = { PATH: process.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C' }

/**
 * Makes the data directory unless it is there. It appears under its name only when it is whole.
 * @param durable false leaves out the flush to disk, for data that is thrown away
 * @returns true when it was made now
 * @throws Error when the existing one was made by another major version, or PostgreSQL refuses
 */
export function prepareCluster(place: PostgresPlace, binaries: PostgresBinaries, durable: boolean): boolean {
  const { account, cluster } = place
  if (existsSync(cluster)) {
    checkVersion(cluster, binaries.majorVersion)
    return false
  }
  const half = `${cluster}.new`
  rmSync(half, { recursive: true, force: true })
  mkdirSync(half, { mode: 0o700 })
  giveTo(account, half)
  const roles = [`--username=${SUPERUSER_ROLE}`, '--auth-local=peer', '--auth-host=reject']
  const sync = durable ? [] : ['--no-sync']
  run(account, binaries.initdb, ['-D', half, ...roles, ...LOCALE, ...sync, '--no-instructions'])
  // In single-user mode PostgreSQL exits with 0 after a failed command unless it is told to stop at the first.
  const options = ['-c', 'exit_on_error=on', '-c', `fsync=${durable ? 'on' : 'off'}`]
  run(account, binaries.postgres, ['--single', '-D', half, ...options, 'postgres'], `${FIRST_COMMANDS.join('\n')}\n`)
  renameSync(half, cluster)
  return true
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
