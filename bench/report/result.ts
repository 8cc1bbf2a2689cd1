/** The result of one scenario as plain data: what the text table shows and the JSON file holds. */

import { type Crypto, floorMicros } from '../measure/crypto-floor.ts'
import { type ByRole, cpuBetween, ROLES, type ServerSample, totalMicros } from '../measure/server-cpu.ts'
import type { RunStats, Slot } from '../measure/stats.ts'
import { curveOf, type Latency, latencyOf, percentileMs } from '../measure/stats.ts'
import type { Options } from '../options.ts'
import { type ScenarioName, scenarioNamed } from '../scenario/table.ts'

/** From here on a generator process has no time to spare. */
const BUSY_CORES = 0.85
/** How late a generator that keeps up never is. */
const LATE_MS = 50

export interface Warmup {
  seconds: number
  isSteady: boolean
}

/** How operations were begun; `ofMaximum` is the rate as part of what the closed loop before it reached. */
export type LoadShape =
  | { kind: 'closed' }
  | { kind: 'open'; perSecond: number; ofMaximum: number | undefined; connections: number }

/** One slot of time. Counts stand where operations ended, latencies where they were due; milliseconds. */
interface SeriesSlot extends Omit<Slot, 'latency'> {
  /** Seconds from the start of the measurement to the start of the slot. */
  at: number
  p50: number
  p99: number
}

interface Series {
  slotSeconds: number
  slots: SeriesSlot[]
  /** Cores in use since the sample before. */
  server: { at: number; cores: ByRole }[]
}

export interface Result {
  scenario: ScenarioName
  directory: string
  challenge: string
  load: LoadShape
  /** Undefined when no warm-up came just before, or the options gave its time. */
  warmup: Warmup | undefined
  startedAt: string
  clients: number
  processes: number
  accounts: number
  seconds: number
  succeeded: number
  failed: number
  /** Open loop: arrivals, and those that found no connection in time. */
  offered: number
  dropped: number
  /** Answered 503 with Retry-After. */
  refused: number
  perSecond: number
  latency: Latency
  /** Requests by step; "503 to <step>" is how fast a step was refused. */
  steps: Record<string, Latency>
  /** Open loop: how late the generator noticed arrivals; part of every latency. */
  lag: Latency | undefined
  /** Milliseconds at `CURVE_PERCENTS`, of whole operations ("operation") and of each step. */
  curves: Record<string, number[]>
  series: Series
  failures: { kind: string; count: number; example: string }[]
  /** Certificates whose names, key and chain were checked. */
  certificatesChecked: number
  signedRequests: number
  badNonceRetries: number
  /** Microseconds of CPU per successful operation; undefined when nothing succeeded. */
  cpu: { server: ByRole; serverTotal: number | undefined; generator: number; responder: number } | undefined
  /** Proportional set size in bytes when the load ended; empty when the server is not on this machine. */
  memory: ByRole
  /** CPU of the busiest generator process in cores. */
  generatorCores: number
  /** The crypto floor of one operation; undefined where nothing is signed, or the server is not on this machine. */
  floor: { costs: Crypto; micros: number; serverRatio: number | undefined } | undefined
}

interface Measurement {
  scenario: ScenarioName
  load: LoadShape
  warmup: Warmup | undefined
  slotMs: number
  startedAt: Date
  seconds: number
  stats: RunStats
  certificatesChecked: number
  samples: readonly ServerSample[]
  memory: ByRole
  generatorCpuMicros: number
  generatorCores: number
  responderCpuMicros: number
  costs: Crypto | undefined
}

export function buildResult(options: Options, measured: Measurement): Result {
  const { stats, seconds, scenario, load, warmup, startedAt, certificatesChecked, memory, generatorCores } = measured
  const { operations, counts } = stats
  const { clients, processes, challengeType, directoryUrl } = options
  const { offered, dropped, refused, failed, signedRequests, badNonceRetries } = counts
  const cpu = cpuPerOperation(measured)
  return {
    scenario,
    load,
    warmup,
    directory: directoryUrl,
    challenge: challengeType,
    startedAt: startedAt.toISOString(),
    clients,
    processes,
    accounts: scenarioNamed(scenario).usesAccounts ? options.accounts : 0,
    seconds,
    succeeded: operations.totalCount,
    failed,
    offered,
    dropped,
    refused,
    perSecond: counts.withinWindow / seconds,
    latency: latencyOf(operations),
    steps: Object.fromEntries([...stats.steps].map(([name, histogram]) => [name, latencyOf(histogram)])),
    lag: load.kind === 'open' ? latencyOf(stats.lag) : undefined,
    curves: Object.fromEntries(
      [['operation', operations] as const, ...stats.steps].map(([name, one]) => [name, curveOf(one)]),
    ),
    series: seriesOf(measured),
    failures: stats.failures.map(([kind, { count, example }]) => ({ kind, count, example })),
    certificatesChecked,
    signedRequests,
    badNonceRetries,
    cpu,
    memory,
    generatorCores,
    floor: floorOf(measured, cpu),
  }
}

/** A faster generator might have measured otherwise. */
export function isGeneratorBusy({ generatorCores, lag }: Result): boolean {
  return generatorCores > BUSY_CORES || (lag?.p99 ?? 0) > LATE_MS
}

/** Decides the exit code. Refusals and drops were asked for, and are no failures. */
export function isGood({ failures, succeeded }: Result): boolean {
  return failures.length === 0 && succeeded > 0
}

function seriesOf({ stats, slotMs, samples }: Measurement): Series {
  return {
    slotSeconds: slotMs / 1000,
    slots: stats.slots.map(({ latency, ...counts }, index) => ({
      at: (index * slotMs) / 1000,
      ...counts,
      p50: percentileMs(latency, 50),
      p99: percentileMs(latency, 99),
    })),
    server: samples.map((sample, index) => {
      const { at, cpu } = sample
      const before = samples[index - 1] ?? sample
      const micros = Math.max(at - before.at, 0.001) * 1_000_000
      const used = Object.entries(cpuBetween(before.cpu, cpu))
      return { at, cores: Object.fromEntries(used.map(([role, value]) => [role, value / micros])) }
    }),
  }
}

function cpuPerOperation({ stats, samples, generatorCpuMicros, responderCpuMicros }: Measurement): Result['cpu'] {
  const { totalCount } = stats.operations
  if (totalCount === 0) return undefined
  const used = samples.at(-1)?.cpu ?? {}
  const total = totalMicros(samples)
  const found = ROLES.flatMap((role) => (used[role] === undefined ? [] : [[role, used[role] / totalCount] as const]))
  return {
    server: Object.fromEntries(found),
    serverTotal: total === undefined ? undefined : total / totalCount,
    generator: generatorCpuMicros / totalCount,
    responder: responderCpuMicros / totalCount,
  }
}

function floorOf({ scenario, costs }: Measurement, cpu: Result['cpu']): Result['floor'] {
  const parts = scenarioNamed(scenario).floor
  if (!parts || !costs) return undefined
  const micros = floorMicros(parts, costs)
  return { costs, micros, serverRatio: cpu?.serverTotal === undefined ? undefined : cpu.serverTotal / micros }
}
