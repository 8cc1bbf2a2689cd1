/**
 * Shared memory of an instance's threads: numbers of their connection pools, the last probe of an
 * exhausted pool, the operator's switches, and how long backends are left alone.
 *
 * Each front writes its own row a few times a second, and readers add the rows. A row may be a
 * tenth of a second old or half written, so the sums are estimates.
 */

import type { PoolNumbers } from '../store/database.ts'
import { DISK_TROUBLES, type DiskTrouble } from '../store/sqlstate.ts'
import type { ServerSwitch } from '../store/switch-store.ts'

export interface SharedFlags {
  /** The sums over the pools of all fronts. */
  pool(): PoolNumbers
  reportPool(front: number, numbers: PoolNumbers): void
  /** The pool's tier for a request; 'none' for one that may probe an exhausted pool. */
  admission(): PressureTier
  /** The last trouble that a statement had with the database's disk, and its age; undefined once the disk works. */
  disk(): { trouble: DiskTrouble; ageSeconds: number } | undefined
  noteDisk(trouble: DiskTrouble | undefined): void
  isOn(name: ServerSwitch): boolean
  setSwitch(name: ServerSwitch, on: boolean): void
}

/** max, size, available, waiting */
const ROW = 4
const SWITCHES: Record<ServerSwitch, number> = { maintenance: 0, stopSigning: 1 }
const LAST_PROBE = 2
const DISK = 3
const DISK_SECONDS = 4
const HEAD = 5

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
    disk() {
      const trouble = DISK_TROUBLES[Atomics.load(cells, DISK) - 1]
      return trouble && { trouble, ageSeconds: Math.floor(monotonicSeconds()) - Atomics.load(cells, DISK_SECONDS) }
    },
    noteDisk(trouble) {
      Atomics.store(cells, DISK_SECONDS, Math.floor(monotonicSeconds()))
      Atomics.store(cells, DISK, trouble ? DISK_TROUBLES.indexOf(trouble) + 1 : 0)
    },
    isOn: (name) => Atomics.load(cells, SWITCHES[name]) === 1,
    setSwitch(name, on) {
      Atomics.store(cells, SWITCHES[name], on ? 1 : 0)
    },
  }
}

/*
 * Tiers of the guard against pressure on the connection pool.
 *
 * Thresholds are shares of the pool's maximum in whole connections: 30 % and 50 % up to 20
 * connections, 10 % and 20 % beyond. They have a floor, because a share of two or three connections
 * rounds to none.
 */

export type PressureTier = 'none' | 'growth' | 'exhausted' | 'critical' | 'pressure'

/** Retry-After in seconds of the tiers that refuse. */
export const PRESSURE_RETRY_AFTER = { exhausted: 5, critical: 3, pressure: 2 } as const
export type RefusingTier = keyof typeof PRESSURE_RETRY_AFTER

/** An exhausted pool admits one request this often, so that its recovery is noticed. */
export const RECOVERY_PROBE_MS = 2_000

const SMALL_POOL = 20

function thresholds(max: number): { critical: number; pressure: number } {
  return max <= SMALL_POOL
    ? { critical: Math.max(1, Math.floor(max * 0.3)), pressure: Math.max(2, Math.floor(max * 0.5)) }
    : { critical: Math.max(2, Math.floor(max * 0.1)), pressure: Math.max(3, Math.floor(max * 0.2)) }
}

/** The first tier that applies. */
export function pressureTier({ max, size, available, waiting }: PoolNumbers): PressureTier {
  if (size < max) return 'growth'
  if (available === 0 && waiting > 0) return 'exhausted'
  const { critical, pressure } = thresholds(max)
  // The second condition lets a pool no larger than the threshold work at all.
  if (available <= critical && size - available > critical) return 'critical'
  if (available <= pressure && waiting > 0) return 'pressure'
  return 'none'
}

export function isRefusing(tier: PressureTier): tier is RefusingTier {
  return tier in PRESSURE_RETRY_AFTER
}

/** How long each backend that issues from a CSR is left alone. The supervisor writes it, whose circuit breakers know; a front thread refuses a finalize by it. */
export interface SharedOutages {
  /** Until the backend is asked again; 0 when it may be asked now. */
  secondsLeft(backend: string): number
  set(backend: string, leftAloneMs: number): void
}

/** @param backends the same list in every thread */
export function allocateSharedOutages(backends: readonly string[]): SharedArrayBuffer {
  return new SharedArrayBuffer(4 * backends.length)
}

export function openSharedOutages(memory: SharedArrayBuffer, backends: readonly string[]): SharedOutages {
  const cells = new Int32Array(memory)
  return {
    secondsLeft(backend) {
      const at = backends.indexOf(backend)
      return at < 0 ? 0 : Math.max(0, Atomics.load(cells, at) - Math.floor(monotonicSeconds()))
    },
    set(backend, leftAloneMs) {
      const until = leftAloneMs > 0 ? Math.ceil(monotonicSeconds() + leftAloneMs / 1000) : 0
      Atomics.store(cells, backends.indexOf(backend), until)
    },
  }
}

/** `performance.now()` begins anew in each thread. */
function monotonicSeconds(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds + nanoseconds / 1e9
}
