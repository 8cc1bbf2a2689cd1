/** Waiting for a fact. The bound is for what never comes true; a machine that stands still for seconds does not reach it. */

import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { WAIT_MS } from './patience.ts'

const LOOK_MS = 20

/** Looks until there is something other than undefined and false. @throws Error that names what was waited for */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  withinMs = WAIT_MS,
): Promise<T> {
  const deadline = performance.now() + withinMs
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    if (performance.now() > deadline) throw new Error(`in vain for ${withinMs} ms: ${what}`)
    await sleep(LOOK_MS)
  }
}

/** Of a pause between two looks at the clock no more counts than a look takes; the rest of it nobody here was running. */
const LONGEST_STEP_MS = 250

/** @returns how long this process has run since; a machine that stands still uses up nothing of what is promised. */
export function startRunningClock(): () => number {
  let ranMs = 0
  let lookedAt = performance.now()
  return () => {
    const now = performance.now()
    ranMs += Math.min(now - lookedAt, LONGEST_STEP_MS)
    lookedAt = now
    return ranMs
  }
}

const MOST_TRIES = 5
/** The shares of time that tests give out leave room for so much. */
const HELD_UP_MS = 50

/**
 * For work whose steps have times: it is done once more when it fails and this process stood still meanwhile.
 * @throws what the work throws while the process runs, or for the fifth time
 */
export async function undisturbed(work: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries++) {
    const delays = monitorEventLoopDelay({ resolution: 10 })
    delays.enable()
    try {
      await work()
      return
    } catch (error) {
      if (tries === MOST_TRIES || delays.max / 1e6 < HELD_UP_MS) throw error
    } finally {
      delays.disable()
    }
  }
}
