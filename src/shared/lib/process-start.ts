/** When a process of this host has started. */

import { readFileSync } from 'node:fs'

const CLOCK_TICKS = 100

/** Reads the time from /proc, which counts from the boot, to 20 ms. @throws Error when the process has ended */
export function startOf(pid: number): Date {
  // The second word may hold spaces and brackets; the 22nd counts ticks since the boot.
  const [, stat = ''] = /^.*\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? []
  const [upSeconds] = readFileSync('/proc/uptime', 'utf8').split(' ')
  return new Date(Date.now() - (Number(upSeconds) - Number(stat.split(' ')[19]) / CLOCK_TICKS) * 1000)
}
