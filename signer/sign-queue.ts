/** The order in which requests use a key that works in another thread or device. */

import { IdleSignal } from '../src/shared/lib/time-limit.ts'
import { SignerUnavailable } from './protocol/errors.ts'

/** Node fires a longer timer at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

interface Waiting {
  start(): void
  timer: NodeJS.Timeout
}

/**
 * Runs at most `slots` tasks at once, in order; the server's limit of requests in flight bounds the
 * queue. A task that waits too long fails without a start, so requests do not pile up behind a
 * hanging key.
 */
export class SignQueue {
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
   * @throws SignerUnavailable when that time passes before the start
   */
  async run<T>(startBefore: number, task: () => Promise<T> | T): Promise<T> {
    if (this.#free > 0) this.#free -= 1
    else await this.#turn(startBefore)
    try {
      if (performance.now() > startBefore) throw tooLate()
      return await task()
    } finally {
      this.#release()
    }
  }

  /** Resolves when nothing runs and nothing waits, or after `timeoutMs`. */
  async idle(timeoutMs?: number): Promise<void> {
    if (this.#free < this.#slots) await this.#idle.wait(timeoutMs)
  }

  #turn(startBefore: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        start: resolve,
        timer: setTimeout(
          () => {
            this.#waiting.delete(waiting)
            reject(tooLate())
          },
          Math.min(startBefore - performance.now(), MAX_TIMER_MS),
        ),
      }
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
    next.start()
  }
}

function tooLate(): SignerUnavailable {
  return new SignerUnavailable('the time to sign passed while waiting for the key')
}
