/** The order in which requests get at a key that works in another thread or device. */

import { SignerUnavailable } from './protocol.ts'

/**
 * Runs at most `slots` tasks at once, first come, first served. A task whose deadline passes while it waits is not
 * started: nobody would take its result. The queue is bounded by the server's limit of requests in flight.
 */
export class SignQueue {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(slots: number) {
    this.#free = slots
  }

  /** @param deadlineAt in the time of `performance.now()`. @throws SignerUnavailable when it passed before the start. */
  async run<T>(deadlineAt: number, task: () => Promise<T> | T): Promise<T> {
    if (this.#free > 0) this.#free -= 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      if (performance.now() > deadlineAt) throw new SignerUnavailable('the deadline passed while waiting for the key')
      return await task()
    } finally {
      // The slot goes straight to the next in line, so that no newcomer can overtake it.
      const next = this.#waiting.shift()
      if (next) next()
      else this.#free += 1
    }
  }
}
