/**
 * Flags that an instance's threads share: numbers of their connection pools, the last probe of an
 * exhausted pool, the operator's switches, the state of the audit log, and how long backends are left alone.
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
  /** Whether the end of the audit log is missing: the admin thread writes it, and health and metrics read it. */
  isAuditLogBroken(): boolean
  noteAuditLog(isBroken: boolean): void
  /** Seconds until a backend that issues from a CSR is asked again; 0 when it may be asked now. */
  secondsAway(backend: string): number
  /** Called by the supervisor, whose circuit breakers know; a front thread refuses a finalize by it. */
  leaveAlone(backend: string, ms: number): void
}

/** max, size, available, waiting */
const ROW = 4
const SWITCHES: Record<ServerSwitch, number> = { maintenance: 0, stopSigning: 1 }
const LAST_PROBE = 2
const DISK = 3
const DISK_SECONDS = 4
const AUDIT_LOG = 5
/** The number of backends: their cells follow the head, and the rows of the fronts follow them. */
const BACKENDS = 6
const HEAD = 7

/** Allocates the memory of the flags, for every thread. */
export function allocateSharedFlags(fronts: number, csrBackends: readonly string[] = []): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(4 * (HEAD + csrBackends.length + fronts * ROW))
  new Int32Array(memory)[BACKENDS] = csrBackends.length
  return memory
}

/** @param csrBackends the same list in every thread that asks about them */
export function openSharedFlags(memory: SharedArrayBuffer, csrBackends: readonly string[] = []): SharedFlags {
  const cells = new Int32Array(memory)
  const rows = HEAD + (cells[BACKENDS] ?? 0)

  function pool(): PoolNumbers {
    const sum = { max: 0, size: 0, available: 0, waiting: 0 }
    // Unrolled, because every request calls it.
    for (let at = rows; at < cells.length; at += ROW) {
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
      const at = rows + front * ROW
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
    isAuditLogBroken: () => Atomics.load(cells, AUDIT_LOG) === 1,
    noteAuditLog(isBroken) {
      Atomics.store(cells, AUDIT_LOG, isBroken ? 1 : 0)
    },
    secondsAway(backend) {
      const at = csrBackends.indexOf(backend)
      return at < 0 ? 0 : Math.max(0, Atomics.load(cells, HEAD + at) - Math.floor(monotonicSeconds()))
    },
    leaveAlone(backend, ms) {
      const until = ms > 0 ? Math.ceil(monotonicSeconds() + ms / 1000) : 0
      Atomics.store(cells, HEAD + csrBackends.indexOf(backend), until)
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
const RECOVERY_PROBE_MS = 2_000

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

/** `performance.now()` begins anew in each thread. */
function monotonicSeconds(): number {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds + nanoseconds / 1e9
}
