/**
 * Which of our processes an embedded server belongs to, and what becomes of the server when that process dies.
 *
 * The server runs in a session of its own, so that Ctrl-C does not end it before the service has drained. A service that is
 * killed outright would then leave it behind. Therefore each server has a guard: a small shell that holds one end of a
 * pipe to the service, and stops the server when the pipe closes. If the guard is killed as well, the next start finds
 * the server without an owner and takes it over.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PostgresAccount } from './postgres-account.ts'
import { type PostgresPlace, replaceFile } from './postgres-place.ts'
import { identifyProcess, isStillRunning, type ProcessIdentity } from './process-identity.ts'

interface Owner {
  process: ProcessIdentity
  guard: ProcessIdentity | undefined
}

const fileOf = (place: PostgresPlace) => path.join(place.folder, 'owner.json')

function readOwner(place: PostgresPlace): Owner | undefined {
  try {
    return JSON.parse(readFileSync(fileOf(place), 'utf8')) as Owner
  } catch {
    // Absent, or cut short by a crash of the whole machine: nobody who wrote it can be alive.
    return undefined
  }
}

function writeOwner(place: PostgresPlace, guard: ProcessIdentity | undefined): void {
  const owner: Owner = { process: requireSelf(), guard }
  replaceFile(fileOf(place), JSON.stringify(owner), 0o644)
}

function requireSelf(): ProcessIdentity {
  return identifyProcess(process.pid) ?? { pid: process.pid, startedAt: '' }
}

/**
 * Makes this process the owner of the place. When the former owner was killed, waits until its guard has stopped the server.
 *
 * @returns whether the place had an owner before, that is, whether a server found there is one of ours
 * @throws Error while another process owns it
 */
export async function claimPlace(place: PostgresPlace): Promise<{ hadOwner: boolean }> {
  const former = readOwner(place)
  if (former && isStillRunning(former.process)) {
    const who = former.process.pid === process.pid ? 'this process' : `process ${former.process.pid}`
    throw new Error(`the database in ${place.folder} is in use by ${who}; stop it first, or use another data directory`)
  }
  while (former?.guard && isStillRunning(former.guard)) await sleep(50)
  writeOwner(place, undefined)
  return { hadOwner: former !== undefined }
}

/** Gives the place up, unless it has a new owner by now. */
export function releasePlace(place: PostgresPlace): void {
  if (readOwner(place)?.process.pid === process.pid) rmSync(fileOf(place), { force: true })
}

/**
 * The guard's whole life: wait for the pipe to close, ask the server for a fast shutdown, stay until it is gone. It gives
 * up after 60 s, so that a start which waits for it is never stuck.
 */
const GUARD_SCRIPT = `
read -r _
kill -INT "$1" || exit 0
tries=600
while [ -e "$2" ] && kill -0 "$1" 2>/dev/null && [ $tries -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
`

/** Starts the guard of the server with this pid, and records it. Nothing of it keeps our event loop alive. */
export function startGuard(place: PostgresPlace, account: PostgresAccount, serverPid: number): ChildProcess {
  const pidFile = path.join(place.cluster, 'postmaster.pid')
  const guard = spawn('/bin/sh', ['-c', GUARD_SCRIPT, 'chancery-guard', String(serverPid), pidFile], {
    ...account.runAs,
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  guard.unref()
  // A socket underneath, whose type does not say so; without this the open pipe would hold the process.
  ;(guard.stdin as unknown as { unref(): void }).unref()
  guard.stdin?.on('error', () => undefined)
  writeOwner(place, guard.pid === undefined ? undefined : identifyProcess(guard.pid))
  return guard
}
