/** Queues of an overloaded thread: replies that are sent late, and work that runs after other work. */

import { FairQueue } from '../shared/lib/fair-queue.ts'

interface DelayedReply<T> {
  reply: T
  dueAt: number
  send(reply: T): void
}

/**
 * Replies that are sent late, so that their clients cannot retry at once.
 *
 * All have the same delay, so they leave in order, and a tick of the owner replaces timers.
 */
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

/**
 * One item, and one more for each millisecond of the turn.
 * Items take 30 µs to 200 µs, so they get about a tenth of a busy loop.
 */
export const tenPercentOfTick = (turnMs: number): number => 1 + Math.floor(turnMs)

interface Work {
  owner: string
  run(): void
}

/**
 * A queue of work that runs after other work, at the end of a turn of the event loop.
 *
 * Items are counted and not timed, because most of their cost comes later, after a promise.
 * Owners take turns: a thousand items of one owner delay the first item of another by one.
 */
export class LowPriorityQueue {
  readonly #room: (turnMs: number) => number
  readonly #queue = new FairQueue<Work>({
    ownerOf: ({ owner }) => owner,
    targetOf: () => 'all',
    perOwner: Number.POSITIVE_INFINITY,
    perTarget: Number.POSITIVE_INFINITY,
  })
  #isScheduled = false
  #endedAt = 0

  /** @param room how many items may run after a turn of `turnMs`; called once a turn */
  constructor(room: (turnMs: number) => number) {
    this.#room = room
  }

  get isEmpty(): boolean {
    return this.#queue.waiting === 0
  }

  /** @param work must not throw. */
  push(owner: string, work: () => void): void {
    this.#queue.push({ owner, run: work })
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
    for (; left > 0 && !this.isEmpty; left--) this.#runNext()
    this.#isScheduled = false
    if (!this.isEmpty) this.#schedule()
  }

  #runNext(): void {
    const work = this.#queue.take()
    if (!work) return
    this.#queue.giveBack(work)
    work.run()
  }
}
