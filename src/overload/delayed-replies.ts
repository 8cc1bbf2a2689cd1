/**
 * Replies that are sent late, so that their clients cannot retry at once.
 *
 * All have the same delay, so they leave in order, and a tick of the owner replaces timers.
 */

interface DelayedReply<T> {
  reply: T
  dueAt: number
  send(reply: T): void
}

export class DelayedReplies<T> {
  readonly #delayMs: number
  readonly #capacity: number
  #waiting: DelayedReply<T>[] = []

  constructor({ delayMs, capacity }: { delayMs: number; capacity: number }) {
    this.#delayMs = delayMs
    this.#capacity = capacity
  }

  get size(): number {
    return this.#waiting.length
  }

  /** @returns undefined when `capacity` replies wait */
  delay(reply: T, now: number): Promise<T> | undefined {
    if (this.#waiting.length >= this.#capacity) return undefined
    return new Promise((send) => this.#waiting.push({ reply, dueAt: now + this.#delayMs, send }))
  }

  /** Sends the replies that are due; without `now`, all. */
  release(now = Number.POSITIVE_INFINITY): void {
    const firstLeft = this.#waiting.findIndex(({ dueAt }) => dueAt > now)
    const due = firstLeft < 0 ? this.#waiting : this.#waiting.slice(0, firstLeft)
    if (due.length === 0) return
    this.#waiting = firstLeft < 0 ? [] : this.#waiting.slice(firstLeft)
    for (const { reply, send } of due) send(reply)
  }
}
