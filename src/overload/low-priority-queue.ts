/**
 * A queue of work that runs after other work, at the end of a turn of the event loop.
 *
 * Items are counted and not timed, because most of their cost comes later, after a promise.
 * Owners take turns: a thousand items of one owner delay the first item of another by one.
 */

/**
 * One item, and one more for each millisecond of the turn.
 * Items take 30 µs to 200 µs, so they get about a tenth of a busy loop.
 */
export const tenPercentOfTick = (turnMs: number): number => 1 + Math.floor(turnMs)

export class LowPriorityQueue {
  readonly #room: (turnMs: number) => number
  /** Queued work by owner; the first owner is next. */
  readonly #owners = new Map<string, (() => void)[]>()
  #isScheduled = false
  #endedAt = 0

  /** @param room how many items may run after a turn of `turnMs`; called once a turn */
  constructor(room: (turnMs: number) => number) {
    this.#room = room
  }

  get isEmpty(): boolean {
    return this.#owners.size === 0
  }

  /** @param work must not throw. */
  push(owner: string, work: () => void): void {
    const queued = this.#owners.get(owner)
    if (queued) queued.push(work)
    else this.#owners.set(owner, [work])
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#endedAt = performance.now()
    setImmediate(this.#turn)
  }

  readonly #turn = (): void => {
    let left = this.#room(performance.now() - this.#endedAt)
    for (; left > 0 && this.#owners.size > 0; left--) this.#next()
    this.#isScheduled = false
    if (this.#owners.size > 0) this.#schedule()
  }

  #next(): void {
    for (const [owner, queued] of this.#owners) {
      const work = queued.shift()
      this.#owners.delete(owner)
      if (queued.length > 0) this.#owners.set(owner, queued)
      work?.()
      return
    }
  }
}
