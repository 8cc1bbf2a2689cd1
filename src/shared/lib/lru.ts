/**
 * A map that forgets its least recently used entries beyond a fixed number.
 *
 * The order of use is a ring of links, and not that of the map: to begin at the first entry of a Map whose first entries
 * were deleted takes as long as there were many of them.
 */

interface Entry<K, V> {
  key: K
  value: V
  newer: Entry<K, V>
  older: Entry<K, V>
}

export class LruMap<K, V> {
  readonly #capacity: number
  readonly #entries = new Map<K, Entry<K, V>>()
  /** Where the ring is closed: its `older` is the newest entry and its `newer` the oldest. */
  readonly #end: Entry<K, V>

  constructor(capacity: number) {
    this.#capacity = capacity
    const end = {} as Entry<K, V>
    end.newer = end
    end.older = end
    this.#end = end
  }

  get size(): number {
    return this.#entries.size
  }

  get(key: K): V | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    unlink(entry)
    this.#makeNewest(entry)
    return entry.value
  }

  set(key: K, value: V): void {
    const known = this.#entries.get(key)
    if (known !== undefined) {
      known.value = value
      unlink(known)
      this.#makeNewest(known)
      return
    }
    const entry: Entry<K, V> = { key, value, newer: this.#end, older: this.#end }
    this.#entries.set(key, entry)
    this.#makeNewest(entry)
    if (this.#entries.size > this.#capacity) this.#forget(this.#end.newer)
  }

  delete(key: K): void {
    const entry = this.#entries.get(key)
    if (entry !== undefined) this.#forget(entry)
  }

  #forget(entry: Entry<K, V>): void {
    this.#entries.delete(entry.key)
    unlink(entry)
  }

  #makeNewest(entry: Entry<K, V>): void {
    const { older } = this.#end
    entry.older = older
    entry.newer = this.#end
    older.newer = entry
    this.#end.older = entry
  }
}

function unlink<K, V>({ newer, older }: Entry<K, V>): void {
  newer.older = older
  older.newer = newer
}
