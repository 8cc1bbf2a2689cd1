/**
 * Work that is done behind other work.
 *
 * It runs at the end of a turn of the event loop, as many items as the turn leaves room for. Items are counted and not
 * timed, because most of what an item costs is done after it, when its promise is kept.
 * Owners take turns: a thousand items of one delay the first item of another by one.
 */

/** One item, and one more for each millisecond of a turn: a tenth of a busy loop, where an item takes 30 µs to 200 µs. */
export const tenPercentOfTick = (turnMs: number): number => 1 + Math.floor(turnMs)

export class LowPriorityQueue {
  readonly #room: (turnMs: number) => number
  /** In the order of their turns. */
  readonly #owners = new Map<string, (() => void)[]>()
  #isScheduled = false
  #endedAt = 0

  /** @param room for so many items in a turn that took `turnMs` until its end; called once a turn. */
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
