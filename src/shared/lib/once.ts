/** Work whose result never changes: done once for each key, and shared by all who want it meanwhile. */

interface Results<K, V> {
  get(key: K): Promise<V> | undefined
  set(key: K, result: Promise<V>): unknown
  delete(key: K): unknown
}

/** A failure goes to those who wait for it and is forgotten; who comes later has the work done anew. */
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
