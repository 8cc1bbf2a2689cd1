/**
 * The PostgreSQL server of a test run: one for all files, made new in a temporary folder and deleted afterwards.
 *
 * The runner starts it and tells the test files where it is through the environment. A file that is run alone starts one
 * for itself. `CHANCERY_TEST_POSTGRES` may also be set by hand, to test against another server (PostgreSQL 14 or newer):
 * a JSON object as `pg` takes it, whose user may create databases.
 */

import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/dev/postgres.ts'
import { isStillRunning } from '../../src/shared/lib/processes.ts'

export interface DatabaseConnection {
  /** A host name, or the folder of a Unix socket. */
  host: string
  port: number
  user: string
  password?: string
  database: string
  /** Settings of the tests' own sessions; the service takes none from here. */
  options?: string
}

export const POSTGRES_VARIABLE = 'CHANCERY_TEST_POSTGRES'

/** An operator's server may have these settings: every session of the service has to read and write the same with them. */
const OTHER_WORLD = {
  datestyle: 'German, DMY',
  intervalstyle: 'sql_standard',
  timezone: 'Asia/Kathmandu',
  bytea_output: 'escape',
  extra_float_digits: -4,
  transform_null_equals: 'on',
  default_transaction_isolation: 'serializable',
  lock_timeout: '1h',
  idle_session_timeout: '1h',
} as const

/** PostgreSQL itself has these settings. */
export const PLAIN_SETTINGS = {
  datestyle: 'ISO',
  intervalstyle: 'postgres',
  timezone: 'UTC',
  bytea_output: 'hex',
  extra_float_digits: 1,
  transform_null_equals: 'off',
  default_transaction_isolation: 'read committed',
} as const

/** For the tests' own connections. */
export const PLAIN_SESSION = Object.entries(PLAIN_SETTINGS)
  .map(([name, value]) => `-c ${name}=${String(value).replace(' ', '\\ ')}`)
  .join(' ')

/** Ids of processes mean nothing in another PID namespace: what runs there looks abandoned from here. */
const PREFIX = `chancery-test-${statSync('/proc/self/ns/pid').ino}-`

/** Where the runner (or the user) says that the server is; undefined when nobody has started one. */
export function givenPostgres(): DatabaseConnection | undefined {
  const text = process.env[POSTGRES_VARIABLE]
  return text ? (JSON.parse(text) as DatabaseConnection) : undefined
}

/** Starts a server of this process's own; `stop` ends it and deletes its data. */
export async function startTestPostgres(): Promise<EmbeddedPostgres> {
  removeAbandonedFolders()
  const dataDir = path.join(tmpdir(), `${PREFIX}${process.pid}`)
  const server = await startEmbeddedPostgres({
    dataDir,
    settings: {
      // The data is thrown away. A process that is killed loses nothing by this, only a machine that loses power would.
      fsync: 'off',
      synchronous_commit: 'on',
      // Several files run at once, each with pools of its own.
      max_connections: 300,
      ...OTHER_WORLD,
    },
    log: () => undefined,
  })
  return {
    ...server,
    async stop() {
      await server.stop()
      rmSync(server.folder, { recursive: true, force: true })
    },
  }
}

/** A run that was killed could not delete its folder; its server has stopped by itself (see `postgres-place.ts`). */
function removeAbandonedFolders(): void {
  for (const name of readdirSync(tmpdir())) {
    const folder = path.join(tmpdir(), name)
    if (name.startsWith(PREFIX) && isAbandoned(folder)) rmSync(folder, { recursive: true, force: true })
  }
}

/** Only a folder whose owner is recorded and gone; one that is just being made, or somebody else's, is left alone. */
function isAbandoned(folder: string): boolean {
  try {
    const { process: owner, guard } = JSON.parse(readFileSync(path.join(folder, 'owner.json'), 'utf8'))
    return !isStillRunning(owner) && !(guard && isStillRunning(guard))
  } catch {
    return false
  }
}
