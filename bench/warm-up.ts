/**
 * The warm-up before a measurement. It loads the server until its rate and its CPU per operation are steady.
 * A service that has just started takes up to half more CPU for a certificate than after 20 s of load.
 */

import type { Phase } from './generator/messages.ts'
import { sampleServer, totalMicros } from './measure/server-cpu.ts'
import type { StatsSnapshot } from './measure/stats.ts'

const WINDOW_MS = 5_000
const MOST_WINDOWS = 6
const TOLERANCE = 0.05

/** A part of the warm-up. */
export interface WarmupWindow {
  perSecond: number
  /** The server's CPU for each operation; undefined when nothing succeeded or the server is not on this machine. */
  cpuMicros: number | undefined
}

export interface Warmup {
  seconds: number
  isSteady: boolean
}

/** Runs windows until two in succession are alike, or for 30 s. @throws what `run` throws */
export async function warmUp(
  run: (phase: Phase) => Promise<readonly { stats: StatsSnapshot }[]>,
  pids: readonly number[],
): Promise<Warmup> {
  let before: WarmupWindow | undefined
  for (let windows = 1; ; windows++) {
    const sampler = sampleServer(pids)
    const ran = await run({ forMs: WINDOW_MS }).finally(sampler.end)
    const count = ran.reduce((sum, { stats }) => sum + stats.counts.withinWindow, 0)
    const micros = totalMicros(sampler.samples)
    const cpuMicros = micros === undefined || count === 0 ? undefined : micros / count
    const now = { perSecond: (1000 * count) / WINDOW_MS, cpuMicros }
    const hasSettled = before !== undefined && isSteady(before, now)
    if (hasSettled || windows === MOST_WINDOWS) return { seconds: (windows * WINDOW_MS) / 1000, isSteady: hasSettled }
    before = now
  }
}

/** True when both the rate and the CPU per operation differ by at most 5 percent. */
export function isSteady(before: WarmupWindow, now: WarmupWindow): boolean {
  return isNear(before.perSecond, now.perSecond) && isNear(before.cpuMicros ?? 0, now.cpuMicros ?? 0)
}

function isNear(a: number, b: number): boolean {
  return Math.abs(a - b) <= TOLERANCE * Math.max(a, b)
}
