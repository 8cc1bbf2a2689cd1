/**
 * Tiers of the guard against pressure on the connection pool. Pure.
 *
 * Thresholds are shares of the pool's maximum in whole connections: 30 % and 50 % up to 20
 * connections, 10 % and 20 % beyond. They have a floor, because a share of two or three connections
 * rounds to none.
 */

export interface PoolNumbers {
  /** Most connections that the pool may have. */
  max: number
  /** Open connections. */
  size: number
  /** Open connections that could take a statement now. */
  available: number
  /** Statements that wait for a connection. */
  waiting: number
}

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
