/**
 * One run of work for several callers: for a time (`oncePerKey`), while it is under way (`sharedRuns`),
 * or from before it begins (`sharedWork`).
 */

import { CommandDropped } from './batcher.ts'

interface Results<K, V> {
  get(key: K): Promise<V> | undefined
  set(key: K, result: Promise<V>): unknown
  delete(key: K): unknown
}

/**
 * For work whose result stays good for as long as `results` keeps it. A failure reaches all current
 * callers and is then forgotten.
 */
export function oncePerKey<K, V>(work: (key: K) => Promise<V>, results: Results<K, V>): (key: K) => Promise<V> {
  return (key) => {
    const known = results.get(key)
    if (known) return known
    const result = work(key)
    results.set(key, result)
    result.catch(() => results.delete(key))
    return result
  }
}

type IsGone = () => boolean
const STAYS: IsGone = () => false

type SharedRun<V> = (key: string, work: (isGone: IsGone) => Promise<V>, isGone?: IsGone) => Promise<V>

/**
 * For equal requests: a request during a run shares its result, a later one starts a new run.
 * The work can ask whether all of its callers have gone. A caller that joins a dropped run starts a new one.
 */
export function sharedRuns<V>(): SharedRun<V> {
  const runs = new Map<string, { result: Promise<V>; waiting: IsGone[] }>()
  const share: SharedRun<V> = (key, work, isGone = STAYS) => {
    const known = runs.get(key)
    if (known) {
      known.waiting.push(isGone)
      return known.result.catch((error) => {
        if (!(error instanceof CommandDropped) || isGone()) throw error
        return share(key, work, isGone)
      })
    }
    const waiting = [isGone]
    const result = work(() => waiting.every((one) => one())).finally(() => runs.delete(key))
    runs.set(key, { result, waiting })
    return result
  }
  return share
}

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

/**
 * Runs never overlap and begin at least an interval apart. A result always includes what happened
 * before the call; a cached one would be older. A call waits one interval at most, or for the end
 * of the run under way.
 *
 * @returns a function that rejects with TooManyWaiting, or with the error of the work
 */
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
