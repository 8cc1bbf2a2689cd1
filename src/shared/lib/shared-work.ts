/**
 * Work that many ask for at a time: done once for all who asked before it began, one after the other and not more often than an interval allows.
 *
 * What has happened before the question is always in the answer. That costs a wait of an interval at most, where an answer
 * that is kept would be older than the question.
 */

export interface SharedWorkOptions {
  /** From one beginning to the next. */
  intervalMs: number
  /** For work that has not begun. */
  mostWaiting: number
}

export class TooManyWaiting extends Error {
  constructor() {
    super('too many wait for the same answer')
    this.name = 'TooManyWaiting'
  }
}

/** @returns a function that rejects with TooManyWaiting, or with what the work failed with. */
export function sharedWork<V>(
  work: () => Promise<V>,
  { intervalMs, mostWaiting }: SharedWorkOptions,
): () => Promise<V> {
  let next: Promise<V> | undefined
  let waiting = 0
  let begunAt = Number.NEGATIVE_INFINITY
  let former: Promise<unknown> = Promise.resolve()

  async function run(): Promise<V> {
    await former
    const pauseMs = begunAt + intervalMs - performance.now()
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs))
    begunAt = performance.now()
    next = undefined
    waiting = 0
    const result = work()
    former = result.catch(() => undefined)
    return result
  }

  return () => {
    if (waiting >= mostWaiting) return Promise.reject(new TooManyWaiting())
    waiting++
    next ??= run()
    return next
  }
}
