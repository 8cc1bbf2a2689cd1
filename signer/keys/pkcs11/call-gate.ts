/** What keeps C_Finalize away from every other call: signatures pass together, a restart of the library alone. */

export class CallGate {
  #running = 0
  #exclusive: Promise<boolean> | undefined
  #idle: (() => void) | undefined
  /** Counts restarts: handles of an earlier generation mean nothing, or something else, to this one. */
  generation = 0

  /** Runs beside others of its kind, and not while the gate is closed. */
  async running<T>(task: () => Promise<T>): Promise<T> {
    while (this.#exclusive) await this.settled()
    this.#running += 1
    try {
      return await task()
    } finally {
      this.#running -= 1
      if (this.#running === 0) this.#idle?.()
    }
  }

  /** When the restart that is under way has ended, however. */
  async settled(): Promise<void> {
    await this.#exclusive?.catch(() => undefined)
  }

  /**
   * Runs `task` while nothing else does; what comes meanwhile waits. Whoever asks while another restart is under way has
   * its result.
   * @returns whether it was done; not when a call is still under way after `timeoutMs`. @throws what the task throws
   */
  alone(timeoutMs: number, task: () => void): Promise<boolean> {
    this.#exclusive ??= this.#whenIdle(timeoutMs, task).finally(() => {
      this.#exclusive = undefined
    })
    return this.#exclusive
  }

  async #whenIdle(timeoutMs: number, task: () => void): Promise<boolean> {
    if (!(await this.#untilIdle(timeoutMs))) return false
    this.generation += 1
    task()
    return true
  }

  #untilIdle(timeoutMs: number): Promise<boolean> {
    if (this.#running === 0) return Promise.resolve(true)
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), timeoutMs)
      this.#idle = () => {
        clearTimeout(timer)
        this.#idle = undefined
        resolve(true)
      }
    })
  }
}
