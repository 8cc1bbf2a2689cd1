/** The result of one scenario as plain data: what the text table shows and the JSON file holds. */

import { cpus } from 'node:os'
import { isCheckFailure } from '../client/failure.ts'
import type { BusiestThreads } from '../measure/busy-threads.ts'
import { averageCosts, type CryptoCosts, floorMicros } from '../measure/crypto-floor.ts'
import { type CpuByRole, ROLES } from '../measure/server-cpu.ts'
import { busiestInWindow, type ServerSample } from '../measure/server-sampler.ts'
import type { RunStats } from '../measure/stats.ts'
import type { Options } from '../options/options.ts'
import { type ScenarioName, scenarioNamed } from '../scenario/table.ts'
import { buildSeries, curveOf, type Latency, latencyOf, type Series } from './series.ts'

/** From here on a processor of the generator's has no time to spare. */
export const BUSY_CORES = 0.85
/** How late a generator that keeps up never is. */
const LATE_MS = 50

/** How operations were begun. */
export type LoadShape =
  | { kind: 'closed' }
  | {
      kind: 'open'
      /** Of the arrivals. */
      perSecond: number
      /** The rate as part of what the closed loop before it reached; undefined when it was given as a number. */
      ofMaximum: number | undefined
      connections: number
      patienceSeconds: number
    }

/** Microseconds of CPU per successful operation. */
export interface OperationCpu {
  /** Absent roles were not found or not looked for. */
  server: CpuByRole
  serverTotal: number | undefined
  /** All generator processes. */
  generator: number
  /** The process that started them, which answers challenges. */
  responder: number
}

export interface Floor {
  before: CryptoCosts
  after: CryptoCosts
  /** On the server's processors under the same load; undefined where that could not be measured. */
  beside: CryptoCosts | undefined
  /** For one operation: beside the load, else from the average of before and after. */
  micros: number
  /** From the average of before and after, when the machine had nothing to do for us. */
  idleMicros: number
  /** Server CPU per operation divided by it; undefined without server CPU. */
  serverRatio: number | undefined
}

export interface Result {
  scenario: ScenarioName
  directory: string
  /** Type of the challenges that were met. */
  challenge: string
  load: LoadShape
  startedAt: string
  clients: number
  processes: number
  accounts: number
  warmupSeconds: number
  signing: string
  node: string
  processor: string
  seconds: number
  succeeded: number
  failed: number
  /** Open loop: arrivals. */
  offered: number
  /** Open loop: arrivals that found no connection in time. */
  dropped: number
  /** Operations answered 503 with Retry-After, and how fast each step said so. */
  refused: number
  refusals: Record<string, Latency>
  perSecond: number
  latency: Latency
  steps: Record<string, Latency>
  /** Open loop: how late the generator noticed arrivals; part of every latency. */
  lag: Latency | undefined
  /** Milliseconds at `CURVE_FRACTIONS`, of whole operations ("operation"), of each step, and of "503 to <step>". */
  curves: Record<string, number[]>
  series: Series
  failures: { kind: string; count: number; example: string }[]
  /** Certificates whose names, key and chain were checked. */
  certificatesChecked: number
  checksPassed: boolean
  signedRequests: number
  badNonceRetries: number
  sentBytes: number
  receivedBytes: number
  /** Undefined when nothing succeeded. */
  cpu: OperationCpu | undefined
  /** While operations were begun; undefined where that could not be looked at. */
  busiest: BusiestThreads | undefined
  /** CPU of the busiest generator process in cores: near 1 it is the generator that is measured. */
  generatorCores: number
  floor: Floor | undefined
}

export interface Measurement {
  scenario: ScenarioName
  load: LoadShape
  slotMs: number
  startedAt: Date
  seconds: number
  stats: RunStats
  certificatesChecked: number
  /** Until the last operation had ended. */
  samples: readonly ServerSample[]
  generatorCpuMicros: number
  /** Of the busiest process. */
  generatorCores: number
  responderCpuMicros: number
  costsBefore: CryptoCosts
  costsBeside: CryptoCosts | undefined
  costsAfter: CryptoCosts
}

export function buildResult(options: Options, measured: Measurement): Result {
  const { stats, seconds, scenario } = measured
  const cpu = cpuPerOperation(measured)
  const failures = stats.failures.map(([kind, { count, example }]) => ({ kind, count, example }))
  return {
    scenario,
    load: measured.load,
    directory: options.directoryUrl,
    startedAt: measured.startedAt.toISOString(),
    challenge: options.challengeType,
    clients: options.clients,
    processes: options.processes,
    accounts: scenarioNamed(scenario).usesAccounts ? options.accounts : 0,
    warmupSeconds: options.warmupMs / 1000,
    signing: options.signing,
    node: process.version,
    processor: `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}`,
    seconds,
    succeeded: stats.operations.count,
    failed: stats.failureCount,
    offered: stats.offered,
    dropped: stats.dropped,
    refused: stats.refused,
    refusals: Object.fromEntries(stats.refusedSteps.map(([name, histogram]) => [name, latencyOf(histogram)])),
    perSecond: stats.withinWindow / seconds,
    latency: latencyOf(stats.operations),
    steps: Object.fromEntries(stats.steps.map(([name, histogram]) => [name, latencyOf(histogram)])),
    lag: measured.load.kind === 'open' ? latencyOf(stats.lag) : undefined,
    curves: Object.fromEntries(
      [
        ['operation', stats.operations] as const,
        ...stats.steps,
        ...stats.refusedSteps.map(([name, histogram]) => [`503 to ${name}`, histogram] as const),
      ].map(([name, histogram]) => [name, curveOf(histogram)]),
    ),
    series: buildSeries(stats.slots, measured.slotMs, measured.samples),
    failures,
    certificatesChecked: measured.certificatesChecked,
    checksPassed: !failures.some(({ kind }) => isCheckFailure(kind)),
    signedRequests: stats.signedRequests,
    badNonceRetries: stats.badNonceRetries,
    sentBytes: stats.sentBytes,
    receivedBytes: stats.receivedBytes,
    cpu,
    busiest: busiestInWindow(measured.samples, 0, seconds),
    generatorCores: measured.generatorCores,
    floor: floorOf(measured, cpu),
  }
}

/** The generator had no core to spare or could not keep its own times, so a faster one might have measured otherwise. */
export function isGeneratorBusy({ generatorCores, lag }: Result): boolean {
  return generatorCores > BUSY_CORES || (lag?.p99 ?? 0) > LATE_MS
}

/** What decides the exit code. Refusals of an overload and drops of an open loop are what was asked for, and no failures. */
export function isGood({ failures, succeeded }: Result): boolean {
  return failures.length === 0 && succeeded > 0
}

function cpuPerOperation(measured: Measurement): OperationCpu | undefined {
  const { samples, generatorCpuMicros, responderCpuMicros } = measured
  const serverCpu: CpuByRole = samples.at(-1)?.cpu ?? {}
  const operations = measured.stats.operations.count
  if (operations === 0) return undefined
  const found = ROLES.filter((role) => serverCpu[role] !== undefined)
  const server: CpuByRole = Object.fromEntries(found.map((role) => [role, serverCpu[role]! / operations]))
  const total = found.reduce((sum, role) => sum + server[role]!, 0)
  return {
    server,
    serverTotal: found.length === 0 ? undefined : total,
    generator: generatorCpuMicros / operations,
    responder: responderCpuMicros / operations,
  }
}

function floorOf(measured: Measurement, cpu: OperationCpu | undefined): Floor | undefined {
  const { scenario, costsBefore, costsBeside, costsAfter } = measured
  const parts = scenarioNamed(scenario).floor
  if (!parts) return undefined
  const idleCosts = averageCosts(costsBefore, costsAfter)
  const micros = floorMicros(parts, costsBeside ?? idleCosts)
  return {
    before: costsBefore,
    after: costsAfter,
    beside: costsBeside,
    micros,
    idleMicros: floorMicros(parts, idleCosts),
    serverRatio: cpu?.serverTotal === undefined ? undefined : cpu.serverTotal / micros,
  }
}
