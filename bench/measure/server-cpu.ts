/**
 * CPU time of a server's processes, by what they are for: service, signer, PostgreSQL.
 *
 * A sum over a process tree of own time and time of reaped children never loses a process that came and went, such as
 * a PostgreSQL backend: when it ends, its time moves to the parent that waited for it. The difference of two such sums
 * is what the tree used in between.
 */

import { type ProcessInfo, TICKS_PER_SECOND } from './proc-stat.ts'

export const ROLES = ['service', 'signer', 'postgres'] as const
export type Role = (typeof ROLES)[number]

/** Roots of the trees to look at; those that are absent are found below `service` by their command line. */
export type ServerPids = Partial<Record<Role, number>>

/** Microseconds since each process began; a role nobody has is absent. */
export type CpuByRole = Partial<Record<Role, number>>

const MICROS_PER_TICK = 1_000_000 / TICKS_PER_SECOND

/**
 * Attributes each process below the roots to a role: a given pid has the given role, then the command line decides,
 * then the parent's role. Time of a child that has ended counts for its parent's role.
 * @throws Error when a given process does not exist.
 */
export function cpuByRole(processes: readonly ProcessInfo[], pids: ServerPids): CpuByRole {
  const used: CpuByRole = {}
  for (const { role, ownTicks, reapedTicks } of processesByRole(processes, pids))
    used[role] = (used[role] ?? 0) + (ownTicks + reapedTicks) * MICROS_PER_TICK
  return used
}

/** Every process below the roots once, with its role. @throws Error when a given process does not exist. */
export function processesByRole(processes: readonly ProcessInfo[], pids: ServerPids): (ProcessInfo & { role: Role })[] {
  const byPid = new Map(processes.map((process) => [process.pid, process]))
  const children = groupByParent(processes)
  const given = new Map(ROLES.flatMap((role) => (pids[role] === undefined ? [] : [[pids[role], role] as const])))
  const found: (ProcessInfo & { role: Role })[] = []
  const seen = new Set<number>()

  const visit = (process: ProcessInfo, inherited: Role): void => {
    if (seen.has(process.pid)) return
    seen.add(process.pid)
    const role = given.get(process.pid) ?? roleOfCommand(process.commandLine) ?? inherited
    found.push({ ...process, role })
    for (const child of children.get(process.pid) ?? []) visit(child, role)
  }
  for (const [pid, role] of given) {
    const root = byPid.get(pid)
    if (!root) throw new Error(`no process ${pid} (given as ${role})`)
    visit(root, role)
  }
  return found
}

/** What each role used between two looks; a role that appeared in between counts from zero. */
export function cpuBetween(before: CpuByRole, after: CpuByRole): CpuByRole {
  return Object.fromEntries(
    ROLES.flatMap((role) => (after[role] === undefined ? [] : [[role, after[role] - (before[role] ?? 0)]])),
  )
}

/** @returns undefined for a command that says neither. */
export function roleOfCommand(commandLine: readonly string[]): Role | undefined {
  const program = commandLine[0] ?? ''
  if (/(^|\/)(postgres|postmaster)(:|$)/.test(program)) return 'postgres'
  if (commandLine.slice(0, 4).some((word) => /(^|\/)(chancery-signer|signer\/(main\.js|start\.cjs))$/.test(word)))
    return 'signer'
  return undefined
}

function groupByParent(processes: readonly ProcessInfo[]): Map<number, ProcessInfo[]> {
  const children = new Map<number, ProcessInfo[]>()
  for (const process of processes) {
    const siblings = children.get(process.parentPid)
    if (siblings) siblings.push(process)
    else children.set(process.parentPid, [process])
  }
  return children
}
