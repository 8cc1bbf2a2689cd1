/** What throughput for each core is with more front threads and more instances: which configurations, and how they are reckoned (pure). */

import { THREAD_PARTS, type ThreadPart } from '../measure/busy-threads.ts'
import { type CpuByRole, ROLES } from '../measure/server-cpu.ts'
import type { ScaleOptions } from '../options/scale.ts'
import type { Result } from '../report/result.ts'
import { quotient, type Spread, spreadOf } from '../report/summary.ts'

export interface Configuration {
  name: string
  /** All on one database. */
  instances: number
  /** Front threads of each instance. */
  fronts: number
  /** Where nonces and counters are kept; several instances have to share them. */
  keptIn: 'memory' | 'database'
  /** Index of the configuration that it is to be as good as, for each core; undefined for the first. */
  comparedWith: number | undefined
}

/** What all servers of a configuration run on. */
export interface Processors {
  count: number
  /** The generators are on them, too. */
  areShared: boolean
}

/** What can be full: the busiest thread of each part, and all processors together. */
export type Limit = ThreadPart | 'processors'
const LIMITS: readonly Limit[] = [...THREAD_PARTS, 'processors']

/** From here on threads wait for a processor, so that none of them can look full. */
const FULL_PROCESSORS = 0.9

/** One configuration, loaded once. */
export interface ScalePoint {
  perSecond: number
  /** Of the slowest instance. */
  p99Ms: number
  /** Microseconds of one certificate. */
  cpu: CpuByRole
  /** In crypto floors; undefined without CPU of the server. */
  floors: number | undefined
  /** Kept busy by the servers; undefined without their CPU. */
  cores: number | undefined
  /** Certificates a second for each of these. */
  perCore: number | undefined
  /** 1 is full; what was not looked at is absent. */
  busy: Partial<Record<Limit, number>>
  /** Of the busiest process of each instance's generator, together: they may share a processor. */
  generatorCores: number
}

export interface ScaleRow {
  configuration: Configuration
  /** By round, then by instance. */
  rounds: Result[][]
  points: ScalePoint[]
  perSecond: Spread | undefined
  p99Ms: Spread | undefined
  cpu: Partial<Record<keyof CpuByRole, Spread>>
  floors: Spread | undefined
  cores: Spread | undefined
  perCore: Spread | undefined
  busy: Partial<Record<Limit, Spread>>
  /** What would be full first; undefined where nothing could be looked at. */
  fullest: { limit: Limit; busy: number } | undefined
  /** Of `perCore` to that of the configuration that it is compared with, within a round. */
  ratio: Spread | undefined
}

/** One instance with each number of front threads; then one and several that keep in the database what several must share. */
export function configurationsOf({ fronts, instances }: ScaleOptions): Configuration[] {
  const alone = fronts.map(
    (count, index): Configuration => ({
      name: plural(count, 'front'),
      ...{ instances: 1, fronts: count, keptIn: 'memory' },
      comparedWith: index === 0 ? undefined : 0,
    }),
  )
  if (instances === 0) return alone
  const shared = { fronts: 1, keptIn: 'database' } as const
  return [
    ...alone,
    { name: '1 front, nonces in the database', instances: 1, ...shared, comparedWith: 0 },
    { name: `${instances} instances, 1 front each`, instances, ...shared, comparedWith: alone.length },
  ]
}

/**
 * Sums up what instances did at the same time.
 * @param results One for each instance; PostgreSQL's CPU stands in one of them only.
 */
export function pointOf(results: readonly Result[], processors: Processors): ScalePoint {
  const sum = (read: (result: Result) => number) => results.reduce((total, result) => total + read(result), 0)
  const perSecond = sum((result) => result.perSecond)
  const succeeded = sum((result) => result.succeeded)
  const found = ROLES.filter((role) => results.some(({ cpu }) => cpu?.server[role] !== undefined))
  const cpu: CpuByRole = Object.fromEntries(
    found.map((role) => [role, sum((one) => (one.cpu?.server[role] ?? 0) * one.succeeded) / succeeded]),
  )
  const micros = found.reduce((total, role) => total + (cpu[role] ?? 0), 0)
  const isKnown = found.length > 0 && succeeded > 0
  const floor = sum((one) => one.floor?.micros ?? 0) / results.length
  const cores = isKnown ? (perSecond * micros) / 1_000_000 : undefined
  return {
    perSecond,
    p99Ms: Math.max(...results.map(({ latency }) => latency.p99)),
    cpu,
    floors: isKnown ? quotient(micros, floor) : undefined,
    cores,
    perCore: isKnown ? quotient(1_000_000, micros) : undefined,
    busy: busyOf(results, cores, processors),
    generatorCores: sum((one) => one.generatorCores),
  }
}

function busyOf(
  results: readonly Result[],
  cores: number | undefined,
  { count, areShared }: Processors,
): ScalePoint['busy'] {
  const threads = THREAD_PARTS.flatMap((part) => {
    const found = results.flatMap(({ busiest }) => busiest?.[part] ?? [])
    return found.length === 0 ? [] : [[part, Math.max(...found)] as const]
  })
  const generators = results.reduce(
    (sum, { cpu, perSecond }) => sum + ((cpu?.generator ?? 0) * perSecond) / 1_000_000,
    0,
  )
  return {
    ...Object.fromEntries(threads),
    ...(cores !== undefined && { processors: (cores + (areShared ? generators : 0)) / count }),
  }
}

/** @param rounds By round, then by configuration, then by instance. */
export function reckonScale(
  configurations: readonly Configuration[],
  rounds: readonly (readonly Result[][])[],
  processors: Processors,
): ScaleRow[] {
  const points = rounds.map((round) => round.map((results) => pointOf(results, processors)))
  return configurations.map((configuration, index) => {
    const own = points.flatMap((round) => round[index] ?? [])
    const other = configuration.comparedWith
    const spread = (read: (point: ScalePoint) => number | undefined) => spreadOf(own.map(read))
    const busy = spreadsOf(
      LIMITS,
      own.map((point) => point.busy),
    )
    return {
      configuration,
      rounds: rounds.map((round) => round[index] ?? []),
      points: own,
      perSecond: spread(({ perSecond }) => perSecond),
      p99Ms: spread(({ p99Ms }) => p99Ms),
      cpu: spreadsOf(
        ROLES,
        own.map(({ cpu }) => cpu),
      ),
      floors: spread(({ floors }) => floors),
      cores: spread(({ cores }) => cores),
      perCore: spread(({ perCore }) => perCore),
      busy,
      fullest: fullestOf(busy),
      ratio:
        other === undefined
          ? undefined
          : spreadOf(points.map((round) => quotient(round[index]?.perCore, round[other]?.perCore))),
    }
  })
}

/** Of each figure that some have. */
function spreadsOf<K extends string>(
  names: readonly K[],
  figures: readonly Partial<Record<K, number>>[],
): Partial<Record<K, Spread>> {
  const spreads: Partial<Record<K, Spread>> = {}
  for (const name of names) {
    const spread = spreadOf(figures.map((one) => one[name]))
    if (spread) spreads[name] = spread
  }
  return spreads
}

/** The busiest; but the processors where they are full, since every thread waits for them then. */
function fullestOf(busy: ScaleRow['busy']): ScaleRow['fullest'] {
  const found = LIMITS.flatMap((limit) => (busy[limit] ? [{ limit, busy: busy[limit].median }] : []))
  const full = found.find((one) => one.limit === 'processors' && one.busy >= FULL_PROCESSORS)
  return full ?? found.toSorted((a, b) => b.busy - a.busy)[0]
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
