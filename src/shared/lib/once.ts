/** Work that is wanted several times and done once: for good, or while it is under way. */

import { CommandDropped } from './batcher.ts'

interface Results<K, V> {
  get(key: K): Promise<V> | undefined
  set(key: K, result: Promise<V>): unknown
  delete(key: K): unknown
}

/** For work whose result never changes. A failure goes to those who wait for it and is forgotten; who comes later has the work done anew. */
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
 * For equal requests: who comes while the work is under way shares it, who comes later has it done anew.
 * The work is told whether all who wanted it have gone. Who joins it after it was dropped for that has it done anew.
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
