/** Shares one run of work between several callers: for a time, or while it is under way. */

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
