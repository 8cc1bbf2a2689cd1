/**
 * CPU time of a server's processes, by role: service, signer, PostgreSQL.
 *
 * The sum of own time and reaped children's time loses no process: when a PostgreSQL backend ends, its time moves to
 * the
 * parent that waited for it.
 */

import { familyOf, type ProcessInfo, TICKS_PER_SECOND } from './proc-stat.ts'

export const ROLES = ['service', 'signer', 'postgres'] as const
export type Role = (typeof ROLES)[number]
export type ByRole = Partial<Record<Role, number>>

export interface ServerSample {
  /** Seconds since the sampler began; the first sample is at 0. */
  at: number
  /** Microseconds since the first sample. */
  cpu: ByRole
}

export interface ServerSampler {
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
  const used = Object.values(samples.at(-1)?.cpu ?? {})
  return used.length === 0 ? undefined : used.reduce((sum, micros) => sum + micros, 0)
}

/** A role that appeared in between counts from zero. */
export function cpuBetween(before: ByRole, after: ByRole): ByRole {
  return Object.fromEntries(
    ROLES.flatMap((role) => (after[role] === undefined ? [] : [[role, after[role] - (before[role] ?? 0)]])),
  )
}

/** The command line decides, then the parent's role. */
function withRoles(processes: readonly ProcessInfo[]): (ProcessInfo & { role: Role })[] {
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
