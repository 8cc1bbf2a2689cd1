/**
 * Processes of this host: when each has started, which identifies it across restarts and reuse of process ids.
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

/** Positions behind the name in parentheses, which may contain spaces: fields 3 and 22 of proc(5). */
const STATE = 0
const START = 19

const fieldsOf = (pid: number): string[] => {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

/** @returns the identity of a live process, or undefined; a zombie does not count as alive */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  if (!isSignallable(pid)) return undefined
  try {
    const fields = fieldsOf(pid)
    return fields[STATE] === 'Z' ? undefined : { pid, startedAt: fields[START] ?? '' }
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

const CLOCK_TICKS = 100

/** Reads the time from /proc, which counts from the boot, to 20 ms. @throws Error when the process has ended */
export function startOf(pid: number): Date {
  const [upSeconds] = readFileSync('/proc/uptime', 'utf8').split(' ')
  return new Date(Date.now() - (Number(upSeconds) - Number(fieldsOf(pid)[START]) / CLOCK_TICKS) * 1000)
}
