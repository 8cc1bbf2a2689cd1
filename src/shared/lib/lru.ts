/** A map that forgets its least recently used entries beyond a fixed number, and old ones. */

import { LRUCache } from 'lru-cache'

/** How exactly an entry's age is known. */
const AGE_RESOLUTION_MS = 50

export class LruMap<K extends string | number, V extends NonNullable<unknown>> {
  readonly #cache: LRUCache<K, V>

  /** @param lifeMs from `set` on, however often an entry is read; without it age does not count */
  constructor(capacity: number, lifeMs?: number) {
    const life = lifeMs === undefined ? {} : { ttl: lifeMs, ttlResolution: AGE_RESOLUTION_MS }
    this.#cache = new LRUCache({ max: capacity, ...life })
  }

  get size(): number {
    return this.#cache.size
  }

  get(key: K): V | undefined {
    return this.#cache.get(key)
  }

  set(key: K, value: V): void {
    this.#cache.set(key, value)
  }

  delete(key: K): void {
    this.#cache.delete(key)
  }
}
