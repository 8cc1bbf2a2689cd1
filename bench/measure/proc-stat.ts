/** CPU time of processes and threads as /proc/<pid>/stat and /proc/<pid>/task/<tid>/stat tell it (proc(5)). */

import { readdirSync, readFileSync } from 'node:fs'

export interface ProcessCpu {
  pid: number
  parentPid: number
  /** User and system time of all its threads, ended ones included; clock ticks. */
  ownTicks: number
  /** The same of its children that have ended and were waited for, and of theirs. */
  reapedTicks: number
}

export interface ProcessInfo extends ProcessCpu {
  /** Arguments as the process shows them; a PostgreSQL backend shows `postgres: user database …`. */
  commandLine: readonly string[]
}

/** Pages of memory as /proc/<pid>/statm tells it. */
export interface ProcessMemory {
  residentPages: number
  /** Of them, those of files and of shared memory. */
  sharedPages: number
}

/** USER_HZ: what /proc counts in, 100 on every Linux architecture that Node runs on. */
export const TICKS_PER_SECOND = 100

/** @throws Error when the text is no stat line. */
export function parseProcStat(text: string): ProcessCpu {
  // The name in parentheses may itself hold spaces and parentheses; the last one closes it.
  const nameEnd = text.lastIndexOf(')')
  const fields = text.slice(nameEnd + 2).split(' ')
  const at = (number: number) => Number(fields[number - 3])
  const [pid, parentPid] = [Number.parseInt(text, 10), at(4)]
  const [user, system, reapedUser, reapedSystem] = [at(14), at(15), at(16), at(17)]
  const parsed = { pid, parentPid, ownTicks: user + system, reapedTicks: reapedUser + reapedSystem }
  if (nameEnd < 0 || Object.values(parsed).some(Number.isNaN)) throw new Error(`not a stat line: ${text.slice(0, 40)}`)
  return parsed
}

/** Every process of this machine; one that ends while we look is left out. */
export function readProcesses(): ProcessInfo[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => readProcess(Number(pid)) ?? [])
}

/** @param commandLine When it is known; reading it costs as much as the rest. */
function readProcess(pid: number, commandLine = readCommandLine(pid)): ProcessInfo | undefined {
  return unlessEnded(
    () => commandLine && { ...parseProcStat(readFileSync(`/proc/${pid}/stat`, 'latin1')), commandLine },
  )
}

function readCommandLine(pid: number): readonly string[] | undefined {
  return unlessEnded(() => readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').filter(Boolean))
}

/**
 * Some processes and all below them, looked at often: who has been seen not to belong is not read again, which is most of a machine.
 * A look at a service takes some milliseconds where `readProcesses` takes tens, in the process that answers challenges.
 */
export class ProcessTrees {
  readonly #commandLines = new Map<number, readonly string[]>()
  readonly #strangers = new Set<number>()

  /** @param roots Their processes, whether they exist or not. */
  constructor(roots: readonly number[]) {
    for (const pid of roots) this.#commandLines.set(pid, [])
  }

  read(): ProcessInfo[] {
    const pids = readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
    const known = pids.filter((pid) => this.#commandLines.has(pid)).flatMap((pid) => this.#readKnown(pid) ?? [])
    const fresh = pids
      .filter((pid) => !this.#commandLines.has(pid) && !this.#strangers.has(pid))
      .flatMap((pid) => readProcess(pid) ?? [])
    return [...known, ...this.#sort(fresh)]
  }

  #readKnown(pid: number): ProcessInfo | undefined {
    const commandLine = this.#commandLines.get(pid) ?? []
    // A root is known by its number only.
    if (commandLine.length > 0) return readProcess(pid, commandLine)
    const process = readProcess(pid)
    if (process) this.#commandLines.set(pid, process.commandLine)
    return process
  }

  /** Takes those in that have a parent inside, until nobody follows; the others are strangers from now on. */
  #sort(fresh: readonly ProcessInfo[]): ProcessInfo[] {
    const taken: ProcessInfo[] = []
    let left = fresh
    for (;;) {
      const inside = left.filter(({ parentPid }) => this.#commandLines.has(parentPid))
      if (inside.length === 0) break
      for (const { pid, commandLine } of inside) this.#commandLines.set(pid, commandLine)
      taken.push(...inside)
      left = left.filter((process) => !inside.includes(process))
    }
    for (const { pid } of left) this.#strangers.add(pid)
    return taken
  }
}

/** Of a process, its first included, whose number is the process's own. @returns none when it has ended. */
export function readThreads(pid: number): { pid: number; ownTicks: number }[] {
  const folder = `/proc/${pid}/task`
  const threads = unlessEnded(() => readdirSync(folder)) ?? []
  return threads.flatMap(
    (thread) => unlessEnded(() => parseProcStat(readFileSync(`${folder}/${thread}/stat`, 'latin1'))) ?? [],
  )
}

/** @returns undefined when the process has ended or its memory is not ours to know. */
export function readMemory(pid: number): ProcessMemory | undefined {
  try {
    const [, resident, shared] = readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ').map(Number)
    return { residentPages: resident ?? 0, sharedPages: shared ?? 0 }
  } catch {
    // It ended between two looks; the next one does without it.
    return undefined
  }
}

/** A process and all below it, parents first. */
export function familyOf(pid: number, processes: readonly ProcessInfo[]): ProcessInfo[] {
  return processes
    .filter((process) => process.pid === pid)
    .flatMap((process) => [
      process,
      ...processes.filter(({ parentPid }) => parentPid === pid).flatMap((child) => familyOf(child.pid, processes)),
    ])
}

/** Of a process or a thread: undefined when it ends while we look. */
function unlessEnded<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    throw error
  }
}
