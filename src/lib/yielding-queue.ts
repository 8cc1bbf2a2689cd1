/**
 * Work that lets other work go first: it gets about a tenth of a busy event loop, and most of an idle one.
 *
 * What is queued runs at the end of a turn of the loop, when everything that came in with the turn has been done: one item, and one
 * more for each millisecond that the turn took until then. They are counted and not timed, because what an item costs is mostly
 * done after it, when its promise is kept. With nothing else to do turns are short and follow each other at once. Owners take turns,
 * so that whoever queues a thousand items delays another's first by one.
 */

/** A request keeps a thread busy for some 30 µs to 200 µs. */
const ITEMS_PER_MS = 1

export class YieldingQueue {
  /** In the order of their turns. */
  readonly #lanes = new Map<string, (() => void)[]>()
  #isScheduled = false
  #endedAt = 0

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
    let left = 1 + Math.floor((performance.now() - this.#endedAt) * ITEMS_PER_MS)
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
