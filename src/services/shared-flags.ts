/**
 * Shared memory of an instance's threads: numbers of their connection pools, the last probe of an
 * exhausted pool, and the operator's switches.
 *
 * Each front writes its own row a few times a second, and readers add the rows. A row may be a
 * tenth of a second old or half written, so the sums are estimates.
 */

import { type PoolNumbers, type PressureTier, pressureTier, RECOVERY_PROBE_MS } from '../domain/pool-pressure.ts'
import type { ServerSwitch } from '../domain/server-switch.ts'

export interface SharedFlags {
  /** The sums over the pools of all fronts. */
  pool(): PoolNumbers
  reportPool(front: number, numbers: PoolNumbers): void
  /** The pool's tier for a request; 'none' for one that may probe an exhausted pool. */
  admission(): PressureTier
  isOn(name: ServerSwitch): boolean
  setSwitch(name: ServerSwitch, on: boolean): void
}

/** max, size, available, waiting */
const ROW = 4
const SWITCHES: Record<ServerSwitch, number> = { maintenance: 0, stopSigning: 1 }
const LAST_PROBE = 2
const HEAD = 3

/** Allocates the memory of the flags, for every thread. */
export function allocateSharedFlags(fronts: number): SharedArrayBuffer {
  return new SharedArrayBuffer(4 * (HEAD + fronts * ROW))
}

export function openSharedFlags(memory: SharedArrayBuffer): SharedFlags {
  const cells = new Int32Array(memory)

  function pool(): PoolNumbers {
    const sum = { max: 0, size: 0, available: 0, waiting: 0 }
    // Unrolled, because every request calls it.
    for (let at = HEAD; at < cells.length; at += ROW) {
      sum.max += Atomics.load(cells, at)
      sum.size += Atomics.load(cells, at + 1)
      sum.available += Atomics.load(cells, at + 2)
      sum.waiting += Atomics.load(cells, at + 3)
    }
    return sum
  }

  /** True for one caller of any thread in two seconds. */
  function mayProbe(): boolean {
    // Wraps after 24 days; the 32-bit difference stays right.
    const now = Date.now() | 0
    const last = Atomics.load(cells, LAST_PROBE)
    if (((now - last) | 0) >= 0 && ((now - last) | 0) < RECOVERY_PROBE_MS) return false
    return Atomics.compareExchange(cells, LAST_PROBE, last, now) === last
  }

  return {
    pool,
    reportPool(front, numbers) {
      const at = HEAD + front * ROW
      Atomics.store(cells, at, numbers.max)
      Atomics.store(cells, at + 1, numbers.size)
      Atomics.store(cells, at + 2, numbers.available)
      Atomics.store(cells, at + 3, numbers.waiting)
    },
    admission() {
      const tier = pressureTier(pool())
      return tier === 'exhausted' && mayProbe() ? 'none' : tier
    },
    isOn: (name) => Atomics.load(cells, SWITCHES[name]) === 1,
    setSwitch(name, on) {
      Atomics.store(cells, SWITCHES[name], on ? 1 : 0)
    },
  }
}
