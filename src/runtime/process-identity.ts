/**
 * Identifies a process across restarts and reuse of process ids.
 *
 * After a crash, or in a restarted container, a recorded pid may belong to an unrelated process.
 * The start time from /proc makes it unique. Without /proc only the pid is compared. A reused pid
 * then looks like the old process, and the caller refuses, which is the safe error.
 */

import { readFileSync, readlinkSync } from 'node:fs'

export interface ProcessIdentity {
  pid: number
  /** Clock ticks from boot to the process's start; empty where the system does not provide it. */
  startedAt: string
}

/** @returns the identity of a live process, or undefined; a zombie does not count as alive */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  if (!isSignallable(pid)) return undefined
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name in parentheses may contain spaces. Fields 3 (state) to 22 (starttime) follow
    // (proc(5)).
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? undefined : { pid, startedAt: fields[19] ?? '' }
  } catch {
    // The system has no /proc, or the process ended between the two checks.
    return isSignallable(pid) ? { pid, startedAt: '' } : undefined
  }
}

/** Tells whether the identified process still runs under its pid. */
export function isStillRunning(identity: ProcessIdentity): boolean {
  return identifyProcess(identity.pid)?.startedAt === identity.startedAt
}

/** @returns the process's working directory, or undefined when it cannot be read */
export function workingDirectoryOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return undefined
  }
}

function isSignallable(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
