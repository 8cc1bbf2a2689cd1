/**
 * Who a process id belongs to, across restarts and reuse of ids.
 *
 * A bare pid in a file says little: after a crash (or in a restarted container, where ids start small again) it may
 * belong to an unrelated process. The start time beside it makes it unique. It comes from /proc; where there is no
 * /proc the pid alone has to do, and a reused one is then taken for the old process, which refuses rather than harms.
 */

import { readFileSync, readlinkSync } from 'node:fs'

export interface ProcessIdentity {
  pid: number
  /** Clock ticks since boot at which the process began; empty where the system does not say. */
  startedAt: string
}

/** The identity of a live process, or undefined when there is none (a zombie is not alive). */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  if (!isSignallable(pid)) return undefined
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name in parentheses may hold spaces; the fields after it are state (3) … starttime (22) of proc(5).
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? undefined : { pid, startedAt: fields[19] ?? '' }
  } catch {
    // No /proc on this system, or the process ended between the two looks.
    return isSignallable(pid) ? { pid, startedAt: '' } : undefined
  }
}

/** True while the process that was identified is the one that runs under its pid. */
export function isStillRunning(identity: ProcessIdentity): boolean {
  return identifyProcess(identity.pid)?.startedAt === identity.startedAt
}

/** The directory a process works in, or undefined when it cannot be seen. */
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
