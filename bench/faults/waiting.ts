/** Waiting for a fact of the stand. */

import { setTimeout as sleep } from 'node:timers/promises'

const LOOK_MS = 50

/** Looks until it is so; a look that throws has not found it. @throws Error that names what was waited for */
export async function until(what: string, look: () => boolean | Promise<boolean>, withinMs = 60_000): Promise<void> {
  const deadline = performance.now() + withinMs
  let last: unknown
  for (;;) {
    try {
      if (await look()) return
    } catch (error) {
      last = error
    }
    if (performance.now() > deadline) throw new Error(`in vain for ${withinMs / 1000} s: ${what}`, { cause: last })
    await sleep(LOOK_MS)
  }
}
