/**
 * The embedded PostgreSQL: a real server, made on first use, started, taken over and stopped by this process.
 *
 * It listens on a Unix socket in its own folder and on no network port. It survives a Ctrl-C meant for the service (the
 * service stops it last), follows the service when that is killed, and recovers from being killed itself. The parts:
 * `postgres-place.ts` (folders), `postgres-account.ts` (which user), `postgres-binaries.ts`, `postgres-cluster.ts` (initdb),
 * `postgres-settings.ts`, `postgres-owner.ts` (one owner, the guard).
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type PostgresBinaries, requirePostgresBinaries } from './postgres-binaries.ts'
import { POSTGRES_ENVIRONMENT, prepareCluster } from './postgres-cluster.ts'
import { claimPlace, releasePlace, startGuard } from './postgres-owner.ts'
import {
  type PostgresPlace,
  prepareLogFile,
  preparePlace,
  prepareSocketFolder,
  SERVICE_ROLE,
  SOCKET_PORT,
  SYSTEM_FOLDER,
  writeAccessRules,
} from './postgres-place.ts'
import { EMBEDDED_SETTINGS, type PostgresSettings, renderSettings } from './postgres-settings.ts'
import { identifyProcess, isStillRunning, type ProcessIdentity, workingDirectoryOf } from './process-identity.ts'

export interface EmbeddedPostgresOptions {
  /** Created when missing. Root: every folder above it must let the server's user pass, or /var/lib/chancery is used. */
  dataDir: string
  /** Override `EMBEDDED_SETTINGS` by name. */
  settings?: PostgresSettings
  /** One finished sentence at a time, for the operator. */
  log: (line: string) => void
}

export interface EmbeddedPostgres {
  /** As `pg` takes it; `host` is the socket's folder, and the kernel vouches for the user, so there is no password. */
  connection: { host: string; port: number; user: string; database: string }
  /** The postmaster's; it leads a process group of its own. */
  pid: number
  /** The folder that is really used; it holds `server.log`. */
  folder: string
  /** Settles when the server has ended, whether asked to or not. Waiting for it does not keep the process alive. */
  exited: Promise<void>
  /** Fast shutdown: open transactions are rolled back, the data is checkpointed. Repeated calls wait for the first. */
  stop(): Promise<void>
}

const POLL_MS = 20
/** Replaying a full gigabyte of log took under a minute on slow disks; a start that takes longer is broken. */
const START_TIMEOUT_MS = 120_000
/** Backends of a killed postmaster notice it at their next wait; until the last is gone a new server must not start. */
const ORPHANS_TIMEOUT_MS = 30_000
/** A fast shutdown waits for the checkpoint only. */
const STOP_TIMEOUT_MS = 60_000

/**
 * Starts the server on `dataDir`, or takes over one that lost its owner, and resolves once it accepts connections.
 *
 * @throws Error with a sentence for the operator: data of another version, a folder in use, an account that cannot be
 *   had, or the end of the server's log when it does not come up
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const place = preparePlace(options.dataDir, options.log)
  const { hadOwner } = await claimPlace(place)
  try {
    const running = findServer(place)
    if (running) return await takeOver(place, running, hadOwner, options)
    return await startServer(place, options)
  } catch (error) {
    releasePlace(place)
    throw error
  }
}

interface ServerFacts {
  identity: ProcessIdentity
  port: number
  socketFolder: string
  status: string
}

/** What `postmaster.pid` says: line 1 the pid, 4 the port, 5 the socket's folder, 8 the state. */
function readPidFile(place: PostgresPlace): string[] {
  try {
    return readFileSync(path.join(place.cluster, 'postmaster.pid'), 'utf8').split('\n')
  } catch {
    // Not running, or just gone.
    return []
  }
}

/** The server that runs on the cluster, if its pid file names a live process which works in that very folder. */
function findServer(place: PostgresPlace): ServerFacts | undefined {
  const lines = readPidFile(place)
  const identity = identifyProcess(Number.parseInt(lines[0] ?? '', 10))
  if (!identity || workingDirectoryOf(identity.pid) !== realpathSync(place.cluster)) return undefined
  return { identity, port: Number(lines[3]), socketFolder: lines[4] ?? '', status: lines[7]?.trim() ?? '' }
}

async function takeOver(
  place: PostgresPlace,
  found: ServerFacts,
  hadOwner: boolean,
  options: EmbeddedPostgresOptions,
): Promise<EmbeddedPostgres> {
  const { pid } = found.identity
  if (!hadOwner) {
    throw new Error(
      `PostgreSQL (process ${pid}) already runs on ${place.cluster} and was not started from here; stop it first`,
    )
  }
  const ready = await waitUntilReady(place, found.identity)
  if (!ready) {
    // It was on its way down; by now it is gone.
    return startServer(place, options)
  }
  options.log(`took over PostgreSQL (process ${pid}) that a killed process had left running`)
  return handleOf(place, ready, waitForEnd(found.identity))
}

async function startServer(place: PostgresPlace, options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const settings = { ...EMBEDDED_SETTINGS, ...options.settings }
  const binaries = requirePostgresBinaries(place.account, SYSTEM_FOLDER, options.log)
  if (prepareCluster(place, binaries, settings['fsync'] !== 'off')) {
    options.log(`made a new database in ${place.cluster}`)
  }
  const socketFolder = prepareSocketFolder(place)
  const deadline = Date.now() + ORPHANS_TIMEOUT_MS
  for (;;) {
    const attempt = await tryStart(place, binaries, settings, socketFolder)
    if ('handle' in attempt) return attempt.handle
    const hasOrphans = attempt.output.includes('pre-existing shared memory block')
    if (!hasOrphans || Date.now() > deadline) {
      throw new Error(`PostgreSQL did not start on ${place.cluster}:\n${attempt.output}`)
    }
    await sleep(250)
  }
}

/** One start; gives back what the server wrote to its log if it ended before it was ready. */
async function tryStart(
  place: PostgresPlace,
  binaries: PostgresBinaries,
  settings: PostgresSettings,
  socketFolder: string,
): Promise<{ handle: EmbeddedPostgres } | { output: string }> {
  const logFile = prepareLogFile(place)
  const logStart = statSync(logFile).size
  const server = spawnServer(place, binaries, settings, socketFolder, logFile)
  const ended = new Promise<void>((resolve) => {
    server.once('exit', () => resolve())
    server.once('error', () => resolve())
  })
  const identity = server.pid === undefined ? undefined : identifyProcess(server.pid)
  const ready = identity && (await waitUntilReady(place, identity))
  if (!ready) {
    await ended
    return { output: readFileSync(logFile).subarray(logStart).toString().trim() || 'it ended without a message' }
  }
  server.unref()
  return { handle: handleOf(place, ready, ended) }
}

function spawnServer(
  place: PostgresPlace,
  binaries: PostgresBinaries,
  settings: PostgresSettings,
  socketFolder: string,
  logFile: string,
): ChildProcess {
  const { hbaFile, identFile } = writeAccessRules(place)
  const own: PostgresSettings = {
    listen_addresses: '',
    port: SOCKET_PORT,
    // A list of names: quoted, because a path may hold a comma.
    unix_socket_directories: `"${socketFolder.replaceAll('"', '""')}"`,
    unix_socket_permissions: '0700',
    hba_file: hbaFile,
    ident_file: identFile,
  }
  // A pid file left by a crash may name a pid that another program of this user has now, and PostgreSQL would refuse to
  // start. We have seen that it is no PostgreSQL of this cluster; this variable (meant for pg_ctl) makes the server
  // pass over that one pid, while its check for surviving backends stays in force.
  const stalePid = readPidFile(place)[0] ?? ''
  const output = openSync(logFile, 'a')
  const server = spawn(binaries.postgres, ['-D', place.cluster, ...renderSettings({ ...own, ...settings })], {
    ...place.account.runAs,
    cwd: '/',
    // A session of its own: the terminal's Ctrl-C is for the service, which stops the server when it has drained.
    detached: true,
    stdio: ['ignore', output, output],
    env: { ...POSTGRES_ENVIRONMENT, ...(stalePid && { PG_GRANDPARENT_PID: stalePid }) },
  })
  closeSync(output)
  return server
}

/** Polls the pid file until the server is ready (its facts) or gone (undefined). @throws Error after two minutes. */
async function waitUntilReady(place: PostgresPlace, identity: ProcessIdentity): Promise<ServerFacts | undefined> {
  const deadline = Date.now() + START_TIMEOUT_MS
  while (isStillRunning(identity)) {
    const facts = findServer(place)
    if (facts?.identity.pid === identity.pid && facts.status === 'ready') return facts
    if (Date.now() > deadline) {
      process.kill(identity.pid, 'SIGQUIT')
      throw new Error(
        `PostgreSQL on ${place.cluster} was not ready after ${START_TIMEOUT_MS / 1000} s; see server.log beside it`,
      )
    }
    await sleep(POLL_MS)
  }
  return undefined
}

/** For a server that is not our child; the timer does not keep the process alive. */
async function waitForEnd(identity: ProcessIdentity): Promise<void> {
  while (isStillRunning(identity)) await sleep(POLL_MS, undefined, { ref: false })
}

function handleOf(place: PostgresPlace, server: ServerFacts, ended: Promise<void>): EmbeddedPostgres {
  const guard = startGuard(place, place.account, server.identity.pid)
  const exited = ended.then(() => {
    // Before its pipe closes: with the server gone the guard would signal whoever gets the pid next.
    guard.kill('SIGKILL')
    releasePlace(place)
    if (path.dirname(server.socketFolder) !== place.folder)
      rmSync(server.socketFolder, { recursive: true, force: true })
  })
  let stopping: Promise<void> | undefined
  return {
    connection: { host: server.socketFolder, port: server.port, user: SERVICE_ROLE, database: SERVICE_ROLE },
    pid: server.identity.pid,
    folder: place.folder,
    exited,
    stop() {
      stopping ??= stopServer(server.identity, exited)
      return stopping
    },
  }
}

/** SIGINT is PostgreSQL's fast shutdown; SIGQUIT its immediate one, after which the next start recovers from the log. */
async function stopServer(server: ProcessIdentity, exited: Promise<void>): Promise<void> {
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
    if (isStillRunning(server)) process.kill(server.pid, signal)
    // A timer that holds the event loop: without it Node could end while the server is still writing its checkpoint.
    const timeout = new AbortController()
    const late = sleep(STOP_TIMEOUT_MS, true, { signal: timeout.signal }).catch(() => false)
    const isLate = await Promise.race([exited.then(() => false), late])
    timeout.abort()
    if (!isLate) return
  }
  throw new Error(`PostgreSQL (process ${server.pid}) does not stop`)
}
