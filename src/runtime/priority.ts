/** Threads that give way to the others (docs/decisions/administrators-last.md). */

import { readlinkSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const LOWEST = os.constants.priority.PRIORITY_LOW

/**
 * Lowers the calling thread alone, which only Linux can; a thread that it starts later inherits it.
 *
 * @param steps of niceness, below the priority that the thread has
 * @throws Error where there is no /proc
 */
export function lowerPriority(steps: number): void {
  if (process.platform !== 'linux') return
  const thread = Number(path.basename(readlinkSync('/proc/thread-self')))
  os.setPriority(thread, Math.min(LOWEST, os.getPriority(thread) + steps))
}
