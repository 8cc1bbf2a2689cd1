/**
 * One run of work for several callers: for a time (`oncePerKey`), while it is under way (`sharedRuns`), or from before
 * it begins (`sharedWork`).
 *
 * Also a bounded map and a set of recent members.
 */

import { LRUCache } from 'lru-cache'
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

interface SharedWorkOptions {
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
 * Runs never overlap and begin at least an interval apart. A result always includes what happened before the call; a
 * cached one would be older. A call waits one interval at most, or for the end of the run under way.
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
    // The callers get the error; the next run only waits for the end.
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

/** How exactly an entry's age is known. */
const AGE_RESOLUTION_MS = 50

/** A map that forgets its least recently used entries beyond a fixed number, and old ones. */
export class LruMap<K extends string | number, V extends NonNullable<unknown>> {
  readonly #options: { max: number; ttl?: number; ttlResolution?: number }
  /** Made with the first entry: room for 131,072 takes 3.5 MB and 15 ms. */
  #cache: LRUCache<K, V> | undefined

  /** @param lifeMs from `set` on, however often an entry is read; without it age does not count */
  constructor(capacity: number, lifeMs?: number) {
    const life = lifeMs === undefined ? {} : { ttl: lifeMs, ttlResolution: AGE_RESOLUTION_MS }
    this.#options = { max: capacity, ...life }
  }

  get size(): number {
    return this.#cache?.size ?? 0
  }

  get(key: K): V | undefined {
    return this.#cache?.get(key)
  }

  set(key: K, value: V): void {
    this.#cache ??= new LRUCache(this.#options)
    this.#cache.set(key, value)
  }

  delete(key: K): void {
    this.#cache?.delete(key)
  }
}

/** Remembers recent members in two generations: no search through members and no timer. */
export class RecentSet<T> {
  readonly #lifeMs: number
  #younger = new Set<T>()
  #older = new Set<T>()
  /** `performance.now()`: when the younger generation becomes the older one. */
  #until = 0

  /** @param lifeMs how long a member stays at least; it is gone after three times that */
  constructor(lifeMs: number) {
    this.#lifeMs = lifeMs
  }

  add(member: T): void {
    this.#turn()
    this.#younger.add(member)
  }

  has(member: T): boolean {
    this.#turn()
    return this.#younger.has(member) || this.#older.has(member)
  }

  #turn(): void {
    const now = performance.now()
    if (now < this.#until) return
    this.#older = now < this.#until + this.#lifeMs ? this.#younger : new Set()
    this.#younger = new Set()
    this.#until = now + this.#lifeMs
  }
}
