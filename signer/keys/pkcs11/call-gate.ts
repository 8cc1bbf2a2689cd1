/**
 * Separates C_Finalize from all other calls. Signatures run in parallel; a restart of the library
 * runs alone.
 */

import { IdleSignal } from '../../../src/shared/lib/time-limit.ts'

export class CallGate {
  #running = 0
  #exclusive: Promise<boolean> | undefined
  readonly #idle = new IdleSignal()
  /** Counts restarts. A handle of an earlier generation is invalid, or names another object now. */
  generation = 0

  /** Runs beside other calls, but not during a restart. */
  async running<T>(task: () => Promise<T>): Promise<T> {
    while (this.#exclusive) await this.settled()
    this.#running += 1
    try {
      return await task()
    } finally {
      this.#running -= 1
      if (this.#running === 0) this.#idle.notify()
    }
  }

  /** Resolves when the restart under way has ended or failed. */
  async settled(): Promise<void> {
    // The caller of alone() gets the error.
    await this.#exclusive?.catch(() => undefined)
  }

  /**
   * Runs `task` while no call runs; new calls wait. A second caller shares the restart and its
   * result.
   * @returns false when a call still runs after `timeoutMs`, so `task` did not run
   * @throws the error of `task`
   */
  alone(timeoutMs: number, task: () => void): Promise<boolean> {
    this.#exclusive ??= this.#whenIdle(timeoutMs, task).finally(() => {
      this.#exclusive = undefined
    })
    return this.#exclusive
  }

  async #whenIdle(timeoutMs: number, task: () => void): Promise<boolean> {
    if (this.#running > 0 && !(await this.#idle.wait(timeoutMs))) return false
    this.generation += 1
    task()
    return true
  }
}
