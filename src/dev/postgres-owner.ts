/**
 * Records the owning process of an embedded server, and stops the server when that process dies.
 *
 * The server has a separate session, so that Ctrl-C does not end it before the service drains. A killed service would
 * leave it running, so each server has a guard. The guard is a shell that reads a pipe from the service and stops the
 * server when the pipe closes. If the guard is killed too, the next start takes the server over.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { identifyProcess, isStillRunning, type ProcessIdentity } from '../shared/lib/processes.ts'
import { type PostgresAccount, type PostgresPlace, replaceFile } from './postgres-place.ts'

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
