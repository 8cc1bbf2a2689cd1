/** A bound on tasks at the same time, with a bound on the wait of each. */

import { IdleSignal } from './time-limit.ts'

/** Node fires a longer timer at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

interface Waiting {
  start(isInTime: boolean): void
  timer: NodeJS.Timeout
}

/**
 * Runs at most `slots` tasks at once, in order; the caller bounds the queue. A task that waits too
 * long does not start, so calls do not pile up behind a device or a script that hangs.
 */
export class Slots {
  readonly #slots: number
  #free: number
  readonly #waiting = new Set<Waiting>()
  readonly #idle = new IdleSignal()

  constructor(slots: number) {
    this.#slots = slots
    this.#free = slots
  }

  /**
   * @param startBefore latest start, in the time of `performance.now()`
   * @returns undefined, with nothing done, when that time passes before the start
   */
  async run<T>(startBefore: number, task: () => Promise<T> | T): Promise<T | undefined> {
    if (this.#free > 0) this.#free -= 1
    else if (!(await this.#turn(startBefore))) return undefined
    try {
      return performance.now() > startBefore ? undefined : await task()
    } finally {
      this.#release()
    }
  }

  /** Resolves when nothing runs and nothing waits, or after `timeoutMs`. */
  async idle(timeoutMs?: number): Promise<void> {
    if (this.#free < this.#slots) await this.#idle.wait(timeoutMs)
  }

  #turn(startBefore: number): Promise<boolean> {
    return new Promise((resolve) => {
      const giveUp = () => {
        this.#waiting.delete(waiting)
        resolve(false)
      }
      const timer = setTimeout(giveUp, Math.min(startBefore - performance.now(), MAX_TIMER_MS))
      const waiting: Waiting = { start: resolve, timer }
      this.#waiting.add(waiting)
    })
  }

  /** Hands the slot to the next task directly, so that no newcomer can overtake it. */
  #release(): void {
    const [next] = this.#waiting
    if (!next) {
      this.#free += 1
      if (this.#free === this.#slots) this.#idle.notify()
      return
    }
    this.#waiting.delete(next)
    clearTimeout(next.timer)
    next.start(true)
  }
}
