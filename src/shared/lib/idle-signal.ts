/**
 * Waits until no work is under way, or until a time-out. The owner counts its work and checks
 * first.
 */

import { startTimeLimit } from './time-limit.ts'

export class IdleSignal {
  readonly #waiters = new Set<() => void>()

  /** Ends every wait. The owner calls it when its last piece of work has ended. */
  notify(): void {
    const waiters = [...this.#waiters]
    this.#waiters.clear()
    for (const resolve of waiters) resolve()
  }

  /**
   * @returns whether `notify` was called within `timeoutMs`; without a time-out it waits forever
   */
  wait(timeoutMs?: number): Promise<boolean> {
    return new Promise((resolve) => {
      const onIdle = () => {
        cancel()
        resolve(true)
      }
      const giveUp = () => {
        this.#waiters.delete(onIdle)
        resolve(false)
      }
      const cancel = timeoutMs === undefined ? () => {} : startTimeLimit(timeoutMs, giveUp)
      this.#waiters.add(onIdle)
    })
  }
}
