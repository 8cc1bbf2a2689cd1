/**
 * Answers that are kept back for a while, so that whoever waits for them cannot ask again at once.
 *
 * All stay equally long, so the first in is the first out and one tick of its owner lets out what is due: no timer for each.
 */

interface Held<T> {
  value: T
  dueAt: number
  resolve(value: T): void
}

export class HoldingPen<T> {
  readonly #holdMs: number
  readonly #capacity: number
  #held: Held<T>[] = []

  constructor({ holdMs, capacity }: { holdMs: number; capacity: number }) {
    this.#holdMs = holdMs
    this.#capacity = capacity
  }

  get size(): number {
    return this.#held.length
  }

  /** @returns undefined when it is full. */
  hold(value: T, now: number): Promise<T> | undefined {
    if (this.#held.length >= this.#capacity) return undefined
    return new Promise((resolve) => this.#held.push({ value, dueAt: now + this.#holdMs, resolve }))
  }

  /** Lets out what is due; all of it without a time. */
  release(now = Number.POSITIVE_INFINITY): void {
    const rest = this.#held.findIndex(({ dueAt }) => dueAt > now)
    const due = rest < 0 ? this.#held : this.#held.slice(0, rest)
    if (due.length === 0) return
    this.#held = rest < 0 ? [] : this.#held.slice(rest)
    for (const { value, resolve } of due) resolve(value)
  }
}
