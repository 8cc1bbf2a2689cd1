/** Moves the slow clock, notices a clock that jumped, and mends what it wrote (docs/decisions/clocks.md). */

import { CLOCKS_DIFFER_SECONDS } from '../shared/lib/clocks.ts'
import type { ClockStore } from '../store/clock-store.ts'

interface ClockUpkeepParts {
  store: ClockStore
  /** The clock of the database has gone this much further than the time that passed here; negative: back. */
  onJump(seconds: number): void
  /** Which database it is: the slow clock of a standby that took over is as old as what it had. */
  incarnation(): string | undefined
  /** Monotonic, in milliseconds. */
  elapsedMs?(): number
}

export const CLOCK_ROUND_MS = 10_000
/** A round counts no more. After a longer pause another instance may have led, or this host stood still. */
const LONGEST_ROUND_MS = 6 * CLOCK_ROUND_MS

/** @returns a round, which says how many waits it ended */
export function createClockUpkeep({
  store,
  onJump,
  incarnation,
  elapsedMs = () => performance.now(),
}: ClockUpkeepParts) {
  let former: { at: number; behind: number; of: string | undefined } | undefined
  return async (): Promise<number> => {
    const [at, of] = [elapsedMs(), incarnation()]
    const passedMs = former ? Math.min(at - former.at, LONGEST_ROUND_MS) : 0
    const behind = await store.advance(passedMs / 1000)
    if (former && former.of === of) {
      const change = behind - former.behind
      // Without a jump, now() advances by the time that has passed. The slow clock moves by at most twice that, and back if it is ahead.
      const most = ((at - former.at) / 1000) * (former.behind < 0 ? 3 : 1)
      if (Math.abs(change) > most + CLOCKS_DIFFER_SECONDS) onJump(Math.round(change))
    }
    former = { at, behind, of }
    return store.endLongWaits()
  }
}
