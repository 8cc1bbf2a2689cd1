/**
 * What an overload run says, as plain data, and how it is reckoned from what was measured (pure).
 *
 * One open loop runs through three parts without a pause: calm at half of the maximum, the flood, and calm again. So nothing that a
 * flood leaves behind can hide between two runs.
 */

import { percentile } from '../measure/histogram.ts'
import type { Role } from '../measure/server-cpu.ts'
import { cpuInWindow, type ServerSample } from '../measure/server-sampler.ts'
import { type Slot, sumOfSlots } from '../measure/time-slots.ts'
import type { Result } from '../report/result.ts'
import { type Latency, latencyOf } from '../report/series.ts'

export interface OverloadPart {
  name: 'before' | 'flood' | 'after'
  /** Seconds from the start of the open loop. */
  from: number
  to: number
  /** Arrivals a second. */
  perSecond: number
}

export interface OverloadResult {
  server: string
  /** The closed loop that found the maximum. */
  maximum: Result
  /** The open loop, its series in slots of `run.series.slotSeconds`. */
  run: Result
  parts: OverloadPart[]
  /** In the flood, per second. */
  goodput: number
  /** Goodput by maximum: of the whole flood, and of its worst five seconds (`worstSeconds` in a shorter one). */
  goodputShare: number
  worstGoodputShare: number
  worstSeconds: number
  /** In the flood: what became of the arrivals. */
  flood: { succeeded: number; failed: number; refused: number; dropped: number }
  /** Answers 503 with Retry-After by all operations that reached the server in the flood. */
  refusedShare: number
  /**
   * Microseconds of server CPU of one refused operation: what the flood cost beyond its goodput at the price of the maximum.
   * Undefined without server CPU or refusals; can be below 0 when work gets cheaper under load.
   */
  refusalMicros: number | undefined
  latencyBefore: Latency
  latencyInFlood: Latency
  latencyAfter: Latency
  /** Bytes by role: at the end of the calm part, the most in the flood, at the end of the run. */
  memory: { before: ByRole; most: ByRole; after: ByRole }
  /** Seconds from the end of the flood until latency is what it was before; undefined when it never was. */
  recoverySeconds: number | undefined
}

type ByRole = Partial<Record<Role, number>>

/** Nothing was too much: the maximum had been found too low, by a cold server or beside busy neighbours. */
export function wasNoOverload({ goodputShare, flood }: OverloadResult): boolean {
  return goodputShare > 1 && flood.refused + flood.dropped + flood.failed === 0
}

export const NO_OVERLOAD =
  'the flood was no overload: the maximum was found too low; measure it longer (--duration), or raise --factor'

/** Beyond this factor of the p95 before the flood, latency is not back. */
const BACK_WITHIN = 1.5
/** Over how long latency and goodput are looked at together. */
const RECOVERY_WINDOW_SECONDS = 1
const WORST_WINDOW_SECONDS = 5
/** At the start of each part, while it settles. */
const SETTLING_SECONDS = 1

export interface OverloadMeasured {
  server: string
  maximum: Result
  run: Result
  parts: readonly [before: OverloadPart, flood: OverloadPart, after: OverloadPart]
  slots: readonly Slot[]
  samples: readonly ServerSample[]
}

export function reckonOverload({ server, maximum, run, parts, slots, samples }: OverloadMeasured): OverloadResult {
  const { slotSeconds } = run.series
  const [before, flood, after] = parts
  const between = (from: number, to: number) =>
    slots.slice(Math.round(from / slotSeconds), Math.max(Math.round(to / slotSeconds), 0))
  const inFlood = between(flood.from, flood.to)
  const { latency, ...counts } = sumOfSlots(inFlood)
  const goodput = counts.succeeded / (flood.to - flood.from)
  const calm = sumOfSlots(between(before.from + SETTLING_SECONDS, before.to)).latency
  const reached = counts.succeeded + counts.failed + counts.refused
  return {
    server,
    maximum,
    run,
    parts: [...parts],
    goodput,
    goodputShare: goodput / maximum.perSecond,
    worstGoodputShare: worstRate(inFlood, slotSeconds) / maximum.perSecond,
    worstSeconds: Math.min(WORST_WINDOW_SECONDS, flood.to - flood.from),
    flood: counts,
    refusedShare: reached === 0 ? 0 : counts.refused / reached,
    refusalMicros: refusalCost(maximum, flood, counts, samples),
    latencyBefore: latencyOf(calm),
    latencyInFlood: latencyOf(latency),
    latencyAfter: latencyOf(sumOfSlots(between(after.from + SETTLING_SECONDS, after.to)).latency),
    memory: {
      before: memoryAt(samples, before.to),
      most: mostMemory(samples.filter(({ at }) => at >= flood.from && at <= flood.to + SETTLING_SECONDS)),
      after: memoryAt(samples, after.to),
    },
    recoverySeconds: recoveryOf(between(flood.to, after.to), slotSeconds, percentile(calm, 0.95)),
  }
}

function worstRate(slots: readonly Slot[], slotSeconds: number): number {
  const size = Math.min(Math.round(WORST_WINDOW_SECONDS / slotSeconds), slots.length)
  const sums = slots
    .slice(0, slots.length - size + 1)
    .map((_, start) => slots.slice(start, start + size).reduce((sum, { succeeded }) => sum + succeeded, 0))
  return size === 0 ? 0 : Math.min(...sums) / (size * slotSeconds)
}

function refusalCost(
  { cpu }: Result,
  { from, to }: OverloadPart,
  { succeeded, refused }: { succeeded: number; refused: number },
  samples: readonly ServerSample[],
): number | undefined {
  const used = cpuInWindow(samples, from, to)
  if (!used || cpu?.serverTotal === undefined || refused === 0) return undefined
  const total = Object.values(used).reduce((sum, micros) => sum + micros, 0)
  return (total - succeeded * cpu.serverTotal) / refused
}

/** The first moment from which a second's arrivals are all served, about as fast as before. */
function recoveryOf(slots: readonly Slot[], slotSeconds: number, p95Before: number): number | undefined {
  const size = Math.round(RECOVERY_WINDOW_SECONDS / slotSeconds)
  for (let start = 0; start + size <= slots.length; start++) {
    const { latency, refused, dropped, failed } = sumOfSlots(slots.slice(start, start + size))
    const isBack = latency.count > 0 && percentile(latency, 0.95) <= BACK_WITHIN * p95Before
    if (isBack && refused + dropped + failed === 0) return Math.round(start * slotSeconds * 1000) / 1000
  }
  return undefined
}

function memoryAt(samples: readonly ServerSample[], at: number): ByRole {
  return samples.filter((sample) => sample.at <= at + SETTLING_SECONDS).at(-1)?.residentBytes ?? {}
}

function mostMemory(samples: readonly ServerSample[]): ByRole {
  const most: ByRole = {}
  for (const { residentBytes } of samples) {
    for (const [role, bytes] of Object.entries(residentBytes) as [Role, number][])
      most[role] = Math.max(most[role] ?? 0, bytes)
  }
  return most
}
