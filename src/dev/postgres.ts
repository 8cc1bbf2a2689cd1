/**
 * The embedded PostgreSQL: a real server that this process creates, starts, takes over and stops.
 *
 * It listens only on a Unix socket in its own folder. Ctrl-C for the service does not reach it, and the service stops
 * it last. It ends when the service is killed, and recovers when killed itself. Parts: `postgres-place.ts` (folders,
 * user, owner and guard), `postgres-binaries.ts`, `postgres-cluster.ts` (initdb, settings).
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync, realpathSync, statSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { identifyProcess, isStillRunning, type ProcessIdentity, workingDirectoryOf } from '../shared/lib/processes.ts'
import { type PostgresBinaries, requirePostgresBinaries } from './postgres-binaries.ts'
import {
  EMBEDDED_SETTINGS,
  POSTGRES_ENVIRONMENT,
  type PostgresSettings,
  prepareCluster,
  renderSettings,
} from './postgres-cluster.ts'
import {
  claimPlace,
  type PostgresPlace,
  prepareLogFile,
  preparePlace,
  prepareSocketFolder,
  releasePlace,
  removeSocketFolder,
  SERVICE_ROLE,
  SOCKET_PORT,
  SYSTEM_FOLDER,
  startGuard,
  usualSocketFolder,
  writeAccessRules,
} from './postgres-place.ts'

interface EmbeddedPostgresOptions {
  /** Created when missing. For root, the server's user must reach it, or /var/lib/chancery is used. */
  dataDir: string
  /** Overrides `EMBEDDED_SETTINGS` by name. */
  settings?: PostgresSettings
  /** Gets complete sentences for the operator, one at a time. */
  log: (line: string) => void
}

export interface EmbeddedPostgres {
  /**
   * The settings have the form of `pg`. `host` is the socket's folder; the kernel proves the user, so no password
   * is needed.
   */
  connection: { host: string; port: number; user: string; database: string }
  /** The postmaster's id. The postmaster leads its own process group. */
  pid: number
  /** The folder in use; it contains `server.log`. */
  folder: string
  /** Settles when the server has ended for any reason. Awaiting it does not keep the process alive. */
  exited: Promise<void>
  /** Fast shutdown: rolls back open transactions and writes a checkpoint. Repeated calls join the first. */
  stop(): Promise<void>
}

const POLL_MS = 20
/** Replaying 1 GB of log took under a minute on slow disks; a slower start is broken. */
const START_TIMEOUT_MS = 120_000
/** Backends of a killed postmaster end at their next wait. A new server cannot start before that. */
const ORPHANS_TIMEOUT_MS = 30_000
/** A fast shutdown waits only for the checkpoint. */
const STOP_TIMEOUT_MS = 60_000

/**
 * Starts the server on `dataDir`, or takes over one without an owner. Resolves when it accepts connections.
 *
 * @throws Error with a sentence for the operator: data of another version, a folder in use, a missing account, or the
 * end of the server's log
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const place = preparePlace(options.dataDir, options.log)
  const former = await claimPlace(place)
  try {
    const running = findServer(place)
    if (running) return await takeOver(place, running, former, options)
    return await startServer(place, options)
  } catch (error) {
    releasePlace(place)
    throw error
  }
}

interface ServerFacts {
  identity: ProcessIdentity
  status: string
}

/** Reads `postmaster.pid`: line 1 is the pid, line 8 the state. The server owns it, so no path in it is trusted. */
function readPidFile(place: PostgresPlace): string[] {
  try {
    return readFileSync(path.join(place.cluster, 'postmaster.pid'), 'utf8').split('\n')
  } catch {
    // The server is not running, or has just ended.
    return []
  }
}

/** Finds a running server: its pid file must name a live process whose working directory is this cluster. */
function findServer(place: PostgresPlace): ServerFacts | undefined {
  const lines = readPidFile(place)
  const identity = identifyProcess(Number.parseInt(lines[0] ?? '', 10))
  if (!identity || workingDirectoryOf(identity.pid) !== realpathSync(place.cluster)) return undefined
  return { identity, status: lines[7]?.trim() ?? '' }
}

async function takeOver(
  place: PostgresPlace,
  found: ServerFacts,
  { hadOwner, socketFolder }: { hadOwner: boolean; socketFolder: string | undefined },
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
    // The server was shutting down and has ended by now.
    return startServer(place, options)
  }
  options.log(`took over PostgreSQL (process ${pid}) that a killed process had left running`)
  return handleOf(place, ready, socketFolder ?? usualSocketFolder(place), waitForEnd(found.identity))
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

/** Tries one start. @returns the server's log output if it ended before it was ready */
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
  return { handle: handleOf(place, ready, socketFolder, ended) }
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
    // PostgreSQL parses a list here, so quotes protect a comma in the path.
    unix_socket_directories: `"${socketFolder.replaceAll('"', '""')}"`,
    unix_socket_permissions: '0700',
    hba_file: hbaFile,
    ident_file: identFile,
  }
  // After a crash the pid file may name another program's process, and PostgreSQL would refuse to
  // start. This pg_ctl variable skips that one pid; the check for surviving backends still runs.
  const stalePid = readPidFile(place)[0] ?? ''
  const output = openSync(logFile, 'a')
  const server = spawn(binaries.postgres, ['-D', place.cluster, ...renderSettings({ ...own, ...settings })], {
    ...place.account.runAs,
    cwd: '/',
    // A separate session keeps Ctrl-C from the server, which the service stops after it has drained.
    detached: true,
    stdio: ['ignore', output, output],
    env: { ...POSTGRES_ENVIRONMENT, ...(stalePid && { PG_GRANDPARENT_PID: stalePid }) },
  })
  closeSync(output)
  return server
}

/**
 * Polls the pid file. @returns the server's facts when it is ready, or undefined when it has ended
 * @throws Error after two minutes
 */
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

/** For a server that is not our child. The timer does not keep the process alive. */
async function waitForEnd(identity: ProcessIdentity): Promise<void> {
  while (isStillRunning(identity)) await sleep(POLL_MS, undefined, { ref: false })
}

/** @param socketFolder created by this process, or by the former owner of this server */
function handleOf(
  place: PostgresPlace,
  server: ServerFacts,
  socketFolder: string,
  ended: Promise<void>,
): EmbeddedPostgres {
  const guard = startGuard(place, place.account, server.identity.pid, socketFolder)
  const exited = ended.then(() => {
    // Killed before its pipe closes, or the guard would signal the pid's next process.
    guard.kill('SIGKILL')
    releasePlace(place)
    removeSocketFolder(place, socketFolder)
  })
  let stopping: Promise<void> | undefined
  return {
    connection: { host: socketFolder, port: SOCKET_PORT, user: SERVICE_ROLE, database: SERVICE_ROLE },
    pid: server.identity.pid,
    folder: place.folder,
    exited,
    stop() {
      stopping ??= stopServer(server.identity, exited)
      return stopping
    },
  }
}

/** SIGINT is PostgreSQL's fast shutdown. SIGQUIT is the immediate one, after which the next start recovers. */
async function stopServer(server: ProcessIdentity, exited: Promise<void>): Promise<void> {
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
    if (isStillRunning(server)) process.kill(server.pid, signal)
    // This timer holds the event loop, or Node could end while the server writes its checkpoint.
    const timeout = new AbortController()
    // Only the abort below rejects it.
    const late = sleep(STOP_TIMEOUT_MS, true, { signal: timeout.signal }).catch(() => false)
    const isLate = await Promise.race([exited.then(() => false), late])
    timeout.abort()
    if (!isLate) return
  }
  throw new Error(`PostgreSQL (process ${server.pid}) does not stop`)
}
