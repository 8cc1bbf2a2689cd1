/**
 * The tiers of the connection pool pressure guard. Pure.
 *
 * The thresholds are shares of the pool's maximum M: 30 % and 50 % up to 20 connections, 10 % and 20 % beyond, in whole
 * connections. They have a floor, because a share of a pool of two or three is no connection at all.
 */

export interface PoolNumbers {
  /** M: what the pool may grow to. */
  max: number
  /** Open connections. */
  size: number
  /** Open connections that could take a statement now. */
  available: number
  /** Statements that wait for one. */
  waiting: number
}

export type PressureTier = 'none' | 'growth' | 'exhausted' | 'critical' | 'pressure'

/** Seconds; the tiers that refuse. */
export const PRESSURE_RETRY_AFTER = { exhausted: 5, critical: 3, pressure: 2 } as const
export type RefusingTier = keyof typeof PRESSURE_RETRY_AFTER

/** An exhausted pool lets one request through in this time, so that somebody notices when it has recovered. */
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
  // A pool too small for the threshold must be able to work at all.
  if (available <= critical && size - available > critical) return 'critical'
  if (available <= pressure && waiting > 0) return 'pressure'
  return 'none'
}

export function isRefusing(tier: PressureTier): tier is RefusingTier {
  return tier in PRESSURE_RETRY_AFTER
}
