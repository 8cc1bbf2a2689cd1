/** The wait until nothing is under way any more, or until a time-out. Its owner counts what runs and asks first. */

import { startTimeLimit } from './time-limit.ts'

export class IdleSignal {
  readonly #waiters = new Set<() => void>()

  /** Ends every wait. To be called when the last piece of work has ended. */
  notify(): void {
    const waiters = [...this.#waiters]
    this.#waiters.clear()
    for (const resolve of waiters) resolve()
  }

  /** @returns whether `notify` was called within `timeoutMs`; without a time-out it waits for ever */
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
