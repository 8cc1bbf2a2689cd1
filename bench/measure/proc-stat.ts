/** Processes below a root, with their CPU time as /proc tells them (proc(5)). */

import { readdirSync, readFileSync } from 'node:fs'

export interface ProcessInfo {
  pid: number
  parentPid: number
  /** Arguments as the process shows them; a PostgreSQL backend shows `postgres: user database …`. */
  commandLine: readonly string[]
  /** User and system time of all its threads, ended ones included; clock ticks. */
  ownTicks: number
  /** CPU time of its children that have ended and were waited for, and of their children. */
  reapedTicks: number
}

/** USER_HZ: 100 on every Linux architecture that Node runs on. */
export const TICKS_PER_SECOND = 100

/** @throws Error when the text is no stat line. */
export function parseProcStat(text: string): Omit<ProcessInfo, 'commandLine'> {
  // The name in parentheses may itself hold spaces and parentheses; the last one closes it.
  const nameEnd = text.lastIndexOf(')')
  const fields = text.slice(nameEnd + 2).split(' ')
  const field = (number: number) => Number(fields[number - 3])
  const parsed = {
    pid: Number.parseInt(text, 10),
    parentPid: field(4),
    ownTicks: field(14) + field(15),
    reapedTicks: field(16) + field(17),
  }
  if (nameEnd < 0 || Object.values(parsed).some(Number.isNaN)) throw new Error(`not a stat line: ${text.slice(0, 80)}`)
  return parsed
}

/** A process and all below it, parents first; none when it has ended. */
export function familyOf(pid: number): ProcessInfo[] {
  const found = unlessEnded(() => {
    const commandLine = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').filter(Boolean)
    return { ...parseProcStat(readFileSync(`/proc/${pid}/stat`, 'latin1')), commandLine }
  })
  return found ? [found, ...childrenOf(pid).flatMap(familyOf)] : []
}

/** Children are listed by the thread that started them. */
function childrenOf(pid: number): number[] {
  const threads = unlessEnded(() => readdirSync(`/proc/${pid}/task`)) ?? []
  return threads.flatMap((thread) => {
    const text = unlessEnded(() => readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1')) ?? ''
    return text.split(' ').filter(Boolean).map(Number)
  })
}

function unlessEnded<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    throw error
  }
}
