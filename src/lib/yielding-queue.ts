/**
 * Work that lets other work go first: it gets a tenth of a busy event loop, and all of an idle one.
 *
 * What is queued runs at the end of a turn of the loop, when everything that came in with the turn has been done, for a ninth
 * of the time that the turn took until then. With nothing else to do turns are short and follow each other at once.
 */

const SHARE = 1 / 9
/** In a turn without anything else; some cheap requests, or one dear one. */
const LEAST_MS = 0.1

export class YieldingQueue {
  #waiting: (() => void)[] = []
  #isScheduled = false
  #endedAt = 0

  get size(): number {
    return this.#waiting.length
  }

  /** @param work must not throw. */
  push(work: () => void): void {
    this.#waiting.push(work)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#endedAt = performance.now()
    setImmediate(this.#turn)
  }

  readonly #turn = (): void => {
    const began = performance.now()
    const until = began + Math.max(LEAST_MS, (began - this.#endedAt) * SHARE)
    let done = 0
    do this.#waiting[done++]?.()
    while (done < this.#waiting.length && performance.now() < until)
    this.#waiting = done < this.#waiting.length ? this.#waiting.slice(done) : []
    this.#isScheduled = false
    if (this.#waiting.length > 0) this.#schedule()
  }
}
