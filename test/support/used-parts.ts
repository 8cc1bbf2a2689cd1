/** Tests note what they start and build for the ledger of a run (`ledger.ts`): a line of a file for each. */

import { appendFileSync, readFileSync } from 'node:fs'

/** Names the file. Without it nothing is written. */
export const PARTS_VARIABLE = 'CHANCERY_TEST_PARTS'

export interface UsedPart {
  /** Such as `service`. */
  kind: string
  seconds: number
  /** Seconds of the processor, where they can be known. */
  cpu: number
}

const TICKS_A_SECOND = 100

/** Seconds of processor time of a process and of those that it has waited for (Linux); else nothing. */
export function cpuOf(pid: number | 'self' = 'self'): number {
  if (process.platform !== 'linux') return 0
  try {
    const behindName = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1) ?? ''
    const times = behindName.split(' ').slice(11, 15)
    return times.reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_A_SECOND
  } catch {
    return 0
  }
}

export function notePart(part: UsedPart): void {
  const file = process.env[PARTS_VARIABLE]
  if (file) appendFileSync(file, `${JSON.stringify(part)}\n`)
}

/** Notes a process that is ready now. */
export function noteStart(kind: string, startedAt: number, pid: number | undefined): void {
  notePart({ kind, seconds: (performance.now() - startedAt) / 1000, cpu: pid === undefined ? 0 : cpuOf(pid) })
}

/** Notes work, with what this process and its children spent on it. */
export async function noted<T>(kind: string, work: () => Promise<T>): Promise<T> {
  const [startedAt, cpuBefore] = [performance.now(), cpuOf()]
  const result = await work()
  notePart({ kind, seconds: (performance.now() - startedAt) / 1000, cpu: cpuOf() - cpuBefore })
  return result
}
