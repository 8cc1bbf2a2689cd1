/**
 * Invalidation counters by id, in memory shared by all threads of an instance.
 *
 * A writer counts before and after its change. A cache keeps the count from before its read and
 * drops the entry when the count differs.
 *
 * Two ids may share a counter; that costs one extra read. Ids are version 7 UUIDs, whose last
 * digits are random.
 */

/**
 * 2^18 counters: at 1,000 certificates a second, one in a hundred reads meets another id's change.
 */
const DEFAULT_COUNTERS_LOG2 = 18

export interface ChangeCounters {
  /** Differs from an earlier count when a change was announced since. */
  count(id: string): number
  /** Counts before and after `change`, so that values read before its end are out of date. */
  whileChanging<T>(id: string, change: () => Promise<T>): Promise<T>
  /** Counts a change whose id is known only after it. */
  announce(id: string): void
}

/** Shared memory for the counters; hand it to every thread. */
export function allocateChangeCounters(countersLog2 = DEFAULT_COUNTERS_LOG2): SharedArrayBuffer {
  return new SharedArrayBuffer(4 * 2 ** countersLog2)
}

export function openChangeCounters(memory: SharedArrayBuffer): ChangeCounters {
  const counters = new Int32Array(memory)
  const mask = counters.length - 1

  // The last digit is left out: an authorization and its challenges differ only in it.
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
