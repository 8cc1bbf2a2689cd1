/** How slow this machine is now, as the factor of `patience.ts`: it follows from how long a Node.js process takes. */

import { spawnSync } from 'node:child_process'

/** `node -e 0` on a quiet machine of today. */
const QUICK_MS = 40
/** Half an hour for a condition is enough on any machine. */
const MOST = 30
const STARTS = 5

/** The middle one: one start may stand still, and one may be lucky on a machine that is busy throughout. */
export function factorOf(startsMs: readonly number[]): number {
  const middle = [...startsMs].sort((a, b) => a - b)[Math.floor(startsMs.length / 2)] ?? QUICK_MS
  return Math.round(Math.min(MOST, Math.max(1, middle / QUICK_MS)) * 10) / 10
}

export function measuredPatience(): number {
  return factorOf(
    Array.from({ length: STARTS }, () => {
      const startedAt = performance.now()
      spawnSync(process.execPath, ['-e', '0'])
      return performance.now() - startedAt
    }),
  )
}
