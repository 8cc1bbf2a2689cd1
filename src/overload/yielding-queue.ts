/**
 * Work that lets other work go first.
 *
 * What is queued runs at the end of a turn of the loop, when everything that came in with the turn has been done: as many items as the
 * turn leaves room for. They are counted and not timed, because what an item costs is mostly done after it, when its promise is kept.
 * With nothing else to do turns are short and follow each other at once. Owners take turns, so that whoever queues a thousand items
 * delays another's first by one.
 */

/** One item, and one more for each millisecond of a turn: a tenth of a busy loop, where an item takes some 30 µs to 200 µs. */
export const aTenth = (turnMs: number): number => 1 + Math.floor(turnMs)

export class YieldingQueue {
  readonly #room: (turnMs: number) => number
  /** In the order of their turns. */
  readonly #lanes = new Map<string, (() => void)[]>()
  #isScheduled = false
  #endedAt = 0

  /** @param room items of a turn that took so long until its end; asked once a turn. */
  constructor(room: (turnMs: number) => number) {
    this.#room = room
  }

  get isEmpty(): boolean {
    return this.#lanes.size === 0
  }

  /** @param work must not throw. */
  push(owner: string, work: () => void): void {
    const lane = this.#lanes.get(owner)
    if (lane) lane.push(work)
    else this.#lanes.set(owner, [work])
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
    for (; left > 0 && this.#lanes.size > 0; left--) this.#next()
    this.#isScheduled = false
    if (this.#lanes.size > 0) this.#schedule()
  }

  #next(): void {
    for (const [owner, lane] of this.#lanes) {
      const work = lane.shift()
      this.#lanes.delete(owner)
      if (lane.length > 0) this.#lanes.set(owner, lane)
      work?.()
      return
    }
  }
}
