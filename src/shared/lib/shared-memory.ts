/** Memory of threads: what all of an instance share (a table of numbers, counters of changes, bytes), and the heap of each. */

import { hash, randomBytes } from 'node:crypto'

/*
 * A bounded table of numbers by key.
 *
 * Numbers are instants up to which an entry matters. A bucket has sixteen slots; a new key replaces
 * the smallest number, which is empty, outdated or due first. Places depend on a secret, so no
 * client can choose keys that evict others.
 *
 * Each bucket has a lock, held for about a microsecond. A thread may end while holding one, so a
 * lock unchanged for `TAKE_OVER_MS` is taken over. Only time in which the waiting thread runs
 * counts, because a stopped machine stops the holder as well. A holder delayed that long can lose
 * one update but corrupts nothing.
 */

const SLOTS = 16
/** 2^16 buckets of 16 slots hold a million keys in 16 MiB. The system provides pages as they are used. */
const DEFAULT_BUCKETS_LOG2 = 16
const SECRET_BYTES = 32
/** A holder needs microseconds; the scheduler may suspend it for some tens of milliseconds. */
const TAKE_OVER_MS = 250
/** Two looks at a lock are less than 1 µs apart unless the waiting thread was suspended. */
const LONGEST_LOOK_MS = 1

export interface SharedTable {
  /** The number of `key`, 0 when unknown. */
  get(key: string): number
  /** Replaces the number of `key` (0 when unknown) atomically. `change` must not throw. */
  update(key: string, change: (value: number) => number): void
}

/** Shared memory for one table; every thread gets it. */
export function allocateSharedTable(bucketsLog2 = DEFAULT_BUCKETS_LOG2): SharedArrayBuffer {
  const buckets = 2 ** bucketsLog2
  const memory = new SharedArrayBuffer(SECRET_BYTES + buckets * (4 + 4 + SLOTS * 16))
  new Uint8Array(memory, 0, SECRET_BYTES).set(randomBytes(SECRET_BYTES))
  return memory
}

export function openSharedTable(memory: SharedArrayBuffer): SharedTable {
  // For each bucket: a lock and its padding, then for each slot two words of fingerprint and the number.
  const buckets = (memory.byteLength - SECRET_BYTES) / (4 + 4 + SLOTS * 16)
  const locks = new Int32Array(memory, SECRET_BYTES, buckets)
  const numbers = new Float64Array(memory, SECRET_BYTES + buckets * 8, buckets * SLOTS)
  const prints = new Uint32Array(memory, SECRET_BYTES + buckets * (8 + SLOTS * 8), buckets * SLOTS * 2)
  const secret = Buffer.from(new Uint8Array(memory, 0, SECRET_BYTES)).toString('base64')

  /** The slot of the key in a locked bucket, or the slot to give it. */
  function slotOf(bucket: number, high: number, low: number): { slot: number; isKnown: boolean } {
    const first = bucket * SLOTS
    let oldest = first
    for (let slot = first; slot < first + SLOTS; slot++) {
      if (prints[2 * slot] === high && prints[2 * slot + 1] === low) return { slot, isKnown: true }
      if ((numbers[slot] as number) < (numbers[oldest] as number)) oldest = slot
    }
    return { slot: oldest, isKnown: false }
  }

  function placeOf(key: string): { bucket: number; high: number; low: number } {
    const digest = hash('sha256', secret + key, 'buffer')
    return { bucket: digest.readUInt32LE(0) % buckets, high: digest.readUInt32LE(4), low: digest.readUInt32LE(8) }
  }

  return {
    get(key) {
      const { bucket, high, low } = placeOf(key)
      const stamp = lock(locks, bucket)
      const { slot, isKnown } = slotOf(bucket, high, low)
      const number = isKnown ? (numbers[slot] as number) : 0
      Atomics.compareExchange(locks, bucket, stamp, 0)
      return number
    },
    update(key, change) {
      const { bucket, high, low } = placeOf(key)
      const stamp = lock(locks, bucket)
      const { slot, isKnown } = slotOf(bucket, high, low)
      numbers[slot] = change(isKnown ? (numbers[slot] as number) : 0)
      prints[2 * slot] = high
      prints[2 * slot + 1] = low
      Atomics.compareExchange(locks, bucket, stamp, 0)
    },
  }
}

/** Never zero: zero means that the lock is free. */
const stampNow = () => (Date.now() & 0x7fffffff) | 1

/** @returns the stamp that is now in the lock */
function lock(locks: Int32Array, at: number): number {
  let held = 0
  let lookedAt = 0
  let waitedMs = 0
  for (;;) {
    const stamp = stampNow()
    const before = Atomics.compareExchange(locks, at, 0, stamp)
    if (before === 0) return stamp
    const now = performance.now()
    waitedMs = before === held ? waitedMs + Math.min(now - lookedAt, LONGEST_LOOK_MS) : 0
    held = before
    lookedAt = now
    if (waitedMs > TAKE_OVER_MS && Atomics.compareExchange(locks, at, held, stamp) === held) return stamp
  }
}

/*
 * Invalidation counters by id.
 *
 * A writer counts before and after its change. A cache keeps the count from before its read and
 * drops the entry when the count differs. Two ids may share a counter; that costs one extra read.
 */

/** 2^18 counters: at 1,000 certificates a second, one in a hundred reads meets another id's change. */
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

  // The last digits of a version 7 UUID are random. The very last is left out: an authorization and its challenges
  // differ only in it.
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

/** Bytes for replies that many may ask for and take slowly: none holds a copy. */
export function sharedBytes(content: string | Uint8Array): Uint8Array {
  const bytes = Buffer.from(content)
  const shared = allocateSharedBytes(bytes.length)
  shared.set(bytes)
  return shared
}

/** The same for bytes that arrive in pieces. */
export const allocateSharedBytes = (length: number): Uint8Array => new Uint8Array(new SharedArrayBuffer(length))

/** The same memory as a buffer: a message from another thread brings bytes without that class. */
export const bufferOver = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength)

/**
 * Limits of the heap of the service's own threads. V8 lets one fill 48 MB with young objects; a quarter holds the same
 * requests (docs/decisions/mechanisms.md).
 */
export const THREAD_HEAP = { maxYoungGenerationSizeMb: 12 }
