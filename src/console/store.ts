/** A value that components follow. */

import { useEffect, useState } from 'preact/hooks'

interface Store<T> {
  get(): T
  set(value: T): void
  follow(listener: () => void): () => void
}

export function createStore<T>(initial: T): Store<T> {
  let value = initial
  const listeners = new Set<() => void>()
  return {
    get: () => value,
    set(next) {
      value = next
      for (const listener of [...listeners]) listener()
    },
    follow(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

export function useStore<T>(store: Store<T>): T {
  const [value, setValue] = useState(store.get)
  useEffect(() => {
    // It may have changed between the first rendering and this effect.
    setValue(store.get)
    return store.follow(() => setValue(store.get))
  }, [store])
  return value
}
