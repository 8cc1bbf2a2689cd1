/** When which fault happens: from a seed, so that a run can be repeated. */

import { chanceFrom } from './random.ts'

export interface Planned {
  kind: string
  /** Seconds from the start of the run. */
  at: number
  /** How long it lasts, as a share of what its kind allows. */
  share: number
  /** Seeds what chance decides when it begins, such as the instance that is hit. */
  seed: number
}

export interface ScheduleOptions {
  seed: number
  faults: number
  /** Seconds; each fault has an equal part of it to itself. */
  duration: number
  kinds: readonly string[]
}

/** Every kind comes before any comes again: a run of as many faults as kinds has each once. */
export function planFaults({ seed, faults, duration, kinds }: ScheduleOptions): Planned[] {
  const chance = chanceFrom(seed)
  const slot = duration / faults
  let deck: string[] = []
  return Array.from({ length: faults }, (_, index) => {
    if (deck.length === 0) deck = chance.shuffled(kinds)
    return {
      kind: deck.pop()!,
      // In the first quarter of its part: what is left is for lasting and for recovery.
      at: (index + chance.between(0, 0.25)) * slot,
      share: chance.between(0, 1),
      seed: 1 + chance.whole(1_000_000),
    }
  })
}
