/** Waiting for a fact. The bound is for what never comes true; a machine that stands still for seconds does not reach it. */

import { setTimeout as sleep } from 'node:timers/promises'

export const UNTIL_MS = 30_000
const LOOK_MS = 20

/** Looks until there is something other than undefined and false. @throws Error that names what was waited for */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  withinMs = UNTIL_MS,
): Promise<T> {
  const deadline = performance.now() + withinMs
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    if (performance.now() > deadline) throw new Error(`in vain for ${withinMs} ms: ${what}`)
    await sleep(LOOK_MS)
  }
}
