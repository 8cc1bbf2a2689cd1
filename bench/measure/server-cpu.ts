/**
 * CPU time of a server's processes, by role: service, signer, PostgreSQL.
 *
 * The sum of own time and reaped children's time loses no process: when a PostgreSQL backend ends, its time moves to
 * the
 * parent that waited for it.
 */

import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

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
const TICKS_PER_SECOND = 100

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

export function unlessEnded<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    throw error
  }
}

export const ROLES = ['service', 'signer', 'postgres'] as const
export type Role = (typeof ROLES)[number]
export type ByRole = Partial<Record<Role, number>>

export interface ServerSample {
  /** Seconds since the sampler began; the first sample is at 0. */
  at: number
  /** Microseconds since the first sample. */
  cpu: ByRole
}

interface ServerSampler {
  /** Empty without a process to look at. */
  samples: readonly ServerSample[]
  /** Takes the last one. */
  end(): void
}

const INTERVAL_MS = 1000
const MICROS_PER_TICK = 1_000_000 / TICKS_PER_SECOND

/**
 * Looks at processes and all below them once a second.
 * @param pids A service, and what belongs to it without being below it. @throws Error when one does not exist
 */
export function sampleServer(pids: readonly number[]): ServerSampler {
  if (pids.length === 0) return { samples: [], end: () => undefined }
  const missing = pids.find((pid) => familyOf(pid).length === 0)
  if (missing !== undefined) throw new Error(`no process ${missing}`)
  const before = cpuByRole(pids.flatMap(familyOf))
  const startedAt = performance.now()
  const samples: ServerSample[] = []
  const look = () => {
    // A server that has ended shows as failed operations; what it used until then stays.
    const families = pids.map(familyOf)
    if (families.some((family) => family.length === 0)) return
    const at = (performance.now() - startedAt) / 1000
    samples.push({ at, cpu: cpuBetween(before, cpuByRole(families.flat())) })
  }
  look()
  const timer = setInterval(look, INTERVAL_MS)
  return {
    samples,
    end() {
      clearInterval(timer)
      look()
    },
  }
}

/** @param processes Parents before their children. @returns microseconds since each began */
export function cpuByRole(processes: readonly ProcessInfo[]): ByRole {
  const used: ByRole = {}
  for (const { role, ownTicks, reapedTicks } of withRoles(processes))
    used[role] = (used[role] ?? 0) + (ownTicks + reapedTicks) * MICROS_PER_TICK
  return used
}

/** CPU of all roles until the last sample; undefined when no process was found. */
export function totalMicros(samples: readonly ServerSample[]): number | undefined {
  return sumOf(samples.at(-1)?.cpu ?? {})
}

/** Undefined when no process was found. */
export function sumOf(roles: ByRole): number | undefined {
  const values = Object.values(roles)
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0)
}

/** A role that appeared in between counts from zero. */
export function cpuBetween(before: ByRole, after: ByRole): ByRole {
  return Object.fromEntries(
    ROLES.flatMap((role) => (after[role] === undefined ? [] : [[role, after[role] - (before[role] ?? 0)]])),
  )
}

/** The command line decides, then the parent's role. */
export function withRoles(processes: readonly ProcessInfo[]): (ProcessInfo & { role: Role })[] {
  const roles = new Map<number, Role>()
  return processes.map((process) => {
    const role = roleOfCommand(process.commandLine) ?? roles.get(process.parentPid) ?? 'service'
    roles.set(process.pid, role)
    return { ...process, role }
  })
}

/** @returns undefined for a command that says neither */
export function roleOfCommand(commandLine: readonly string[]): Role | undefined {
  if (/(^|\/)(postgres|postmaster)(:|$)/.test(commandLine[0] ?? '')) return 'postgres'
  const isSigner = (word: string) => /(^|\/)(chancery-signer|signer\/(main\.js|start\.cjs))$/.test(word)
  return commandLine.slice(0, 4).some(isSigner) ? 'signer' : undefined
}

/** @returns undefined when no process listens there, or one of another user */
export function findListener(port: number): number | undefined {
  const tables = ['/proc/net/tcp', '/proc/net/tcp6'].map((file) => orElse('', () => readFileSync(file, 'latin1')))
  const sockets = new Set(tables.flatMap((table) => listeningInodes(table, port)).map((inode) => `socket:[${inode}]`))
  const holds = (pid: string) =>
    orElse([], () => readdirSync(`/proc/${pid}/fd`)).some((fd) =>
      sockets.has(orElse('', () => readlinkSync(`/proc/${pid}/fd/${fd}`))),
    )
  if (sockets.size === 0) return undefined
  const holders = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && holds(name))
  // A child that inherited the socket comes after the parent that opened it.
  return holders.length === 0 ? undefined : Math.min(...holders.map(Number))
}

/** Inodes of sockets in state LISTEN (0A) on a port, from the text of /proc/net/tcp or tcp6. */
export function listeningInodes(table: string, port: number): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return table.split('\n').flatMap((line) => {
    const [, local, , state, , , , , , inode] = line.trim().split(/\s+/)
    return state === '0A' && local?.endsWith(suffix) && inode ? [inode] : []
  })
}

/** A process may end meanwhile or belong to another user: both count as not found. */
function orElse<T>(nothing: T, look: () => T): T {
  try {
    return look()
  } catch {
    return nothing
  }
}
