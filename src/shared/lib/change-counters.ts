/**
 * Who remembers something learns that it has changed: counters by id in memory shared by all threads of an instance.
 *
 * Whoever changes something counts before and after; whoever remembers something keeps the count from before he read
 * it, and forgets it when the count is another. Ids share counters by chance, which costs a look-up too many and nothing
 * else. Ids are UUIDs of version 7, whose last digits are random.
 */

/** 2^18 counters: at 1,000 certificates a second, one in a hundred reads meets another id's change. */
const DEFAULT_COUNTERS_LOG2 = 18

export interface ChangeCounters {
  /** Differs from an earlier count when a change was announced since. */
  count(id: string): number
  /** Runs what changes this; until it has ended and after, older counts are out of date. */
  whileChanging<T>(id: string, change: () => Promise<T>): Promise<T>
  /** For changes whose ids are known only afterwards. */
  announce(id: string): void
}

/** Shared memory for the counters; hand it to every thread. */
export function allocateChangeCounters(countersLog2 = DEFAULT_COUNTERS_LOG2): SharedArrayBuffer {
  return new SharedArrayBuffer(4 * 2 ** countersLog2)
}

export function openChangeCounters(memory: SharedArrayBuffer): ChangeCounters {
  const counters = new Int32Array(memory)
  const mask = counters.length - 1

  // Without the last digit, by which the challenges of an authorization differ from it.
  const placeOf = (id: string) => Number.parseInt(id.slice(27, 35), 16) & mask
  const announce = (id: string) => void Atomics.add(counters, placeOf(id), 1)

  return {
    count: (id) => Atomics.load(counters, placeOf(id)),
    announce,
    async whileChanging(id, change) {
      announce(id)
      try {
        return await change()
      } finally {
        announce(id)
      }
    },
  }
}
