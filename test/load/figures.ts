/** What the programs of this folder measure, and how they print it. */

import { readFileSync } from 'node:fs'
import { loadavg } from 'node:os'

/** In all threads of the process, now or at most (proc(5)). */
export function residentMib(pid: number | undefined, which: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(new RegExp(`${which}:\\s+(\\d+)`).exec(status)?.[1]) / 1024)
}

/** User and system time of all threads (proc(5), fields 14 and 15, in hundredths of a second). */
export function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** @param share such as 0.95 */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

export const median = (values: readonly number[]) => quantile(values, 0.5)

export const loadAverage = () =>
  `load average ${loadavg()
    .map((one) => one.toFixed(1))
    .join(', ')}`
