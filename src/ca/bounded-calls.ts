/** A bound on calls at the same time, with a bound on the wait. */

import { within } from '../shared/lib/time-limit.ts'

export interface BoundedCalls {
  /** @returns undefined, with nothing done, when no place was free in time */
  run<T>(work: () => Promise<T>): Promise<T | undefined>
}

export function createBoundedCalls(places: number, waitMs: number): BoundedCalls {
  let free = places
  const waiting = new Set<(hasPlace: boolean) => void>()

  async function enter(): Promise<boolean> {
    if (free > 0) {
      free--
      return true
    }
    let take: (hasPlace: boolean) => void = () => undefined
    const turn = new Promise<boolean>((resolve) => {
      take = resolve
      waiting.add(resolve)
    })
    const hasPlace = await within(turn, waitMs, false)
    // No longer waiting: another call is handing its place over at this moment.
    if (!hasPlace && !waiting.delete(take)) return turn
    return hasPlace
  }

  function leave(): void {
    const [next] = waiting
    if (!next) {
      free++
      return
    }
    waiting.delete(next)
    next(true)
  }

  return {
    async run(work) {
      if (!(await enter())) return undefined
      try {
        return await work()
      } finally {
        leave()
      }
    },
  }
}
