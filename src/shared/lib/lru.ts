/** A map that forgets its least recently used entries beyond a fixed number. */

import { LRUCache } from 'lru-cache'

export class LruMap<K extends string | number, V extends NonNullable<unknown>> {
  readonly #cache: LRUCache<K, V>

  constructor(capacity: number) {
    this.#cache = new LRUCache({ max: capacity })
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
