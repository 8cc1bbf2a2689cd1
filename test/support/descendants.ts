/** Ends what a test process has started. */

import { readdirSync, readFileSync } from 'node:fs'

/** The children of a process (Linux), also in process groups of their own. */
export function childrenOf(pid: number): number[] {
  try {
    const tasks = readdirSync(`/proc/${pid}/task`)
    const pids = tasks.map((task) => readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' '))
    return pids.flat().filter(Boolean).map(Number)
  } catch {
    return []
  }
}

export function endChildrenOf(pid: number): void {
  for (const child of childrenOf(pid))
    for (const target of [-child, child])
      try {
        process.kill(target, 'SIGKILL')
      } catch {
        // It has ended, or leads no group.
      }
}
