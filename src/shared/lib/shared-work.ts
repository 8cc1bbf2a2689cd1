/**
 * Shares one run of work between all callers that asked before it began.
 *
 * Runs never overlap and begin at least an interval apart. A result always includes what happened
 * before the call; a cached one would be older. A call waits one interval at most, or for the end
 * of the run under way.
 */

export interface SharedWorkOptions {
  /** From the start of one run to the start of the next. */
  intervalMs: number
  /** Most callers that may wait for a run to begin. */
  mostWaiting: number
}

export class TooManyWaiting extends Error {
  constructor() {
    super('too many wait for the same answer')
    this.name = 'TooManyWaiting'
  }
}

/** @returns a function that rejects with TooManyWaiting, or with the error of the work */
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
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, Math.ceil(pauseMs)))
    begunAt = performance.now()
    next = undefined
    waiting = 0
    const result = work()
    // Those who asked get the error; the next run only waits for the end.
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
