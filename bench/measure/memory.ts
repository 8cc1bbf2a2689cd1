/** Memory of a server's processes, by role: the proportional set size, in which a page of n processes counts as 1/n for each. */

import { readFileSync } from 'node:fs'
import { type ByRole, familyOf, unlessEnded, withRoles } from './server-cpu.ts'

/** @param pids A service, and what belongs to it without being below it. @returns bytes */
export function memoryByRole(pids: readonly number[]): ByRole {
  const used: ByRole = {}
  for (const { role, pid } of withRoles(pids.flatMap(familyOf))) {
    const bytes = pssIn(unlessEnded(() => readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1')) ?? '')
    if (bytes !== undefined) used[role] = (used[role] ?? 0) + bytes
  }
  return used
}

/** @returns undefined without such a line, as of a process that has ended */
export function pssIn(smapsRollup: string): number | undefined {
  const [, kilobytes] = /^Pss: +(\d+) kB$/m.exec(smapsRollup) ?? []
  return kilobytes === undefined ? undefined : 1024 * Number(kilobytes)
}
