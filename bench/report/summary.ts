/**
 * The rounds of a run summed up as plain data.
 *
 * Each round loads every server once, so that all meet the same hour of the machine. Ratios are taken within a round
 * and summed up over the rounds, which cancels the drift between rounds.
 */

import { type Role, sumOf } from '../measure/server-cpu.ts'
import type { ScenarioName } from '../scenario/table.ts'
import type { LoadShape, Result } from './result.ts'

/** A server whose turn gave no figures: it could not be asked, died, or did nothing that was asked. */
interface Broken {
  broken: string
}

export type Turn = Result | Broken

export interface Spread {
  median: number
  lowest: number
  highest: number
}

/** One figure of all servers in their order; undefined (null in JSON) where a round has none. */
export interface Figure {
  servers: (Spread | undefined)[]
  /** Each server divided by the first one; undefined for the first itself. */
  ratios: (Spread | undefined)[]
}

/** One scenario under one load. */
export interface Measured {
  scenario: ScenarioName
  /** Such as "closed loop" or "open loop, 50 %". */
  load: string
  /** By round, then by server. */
  rounds: Turn[][]
  figures: Partial<Record<FigureName, Figure>>
}

const cpuOf = (role: Role) => (result: Result) => result.cpu?.server[role]
const memoryOf = (role: Role) => (result: Result) => megabytes(result.memory[role])
const floorsOf = (role: Role) => (result: Result) => quotient(cpuOf(role)(result), result.floor?.micros)

/** Every figure by its name in the JSON file, in the order of the report. */
const FIGURES = {
  perSecond: (result: Result) => result.perSecond,
  p50Ms: ({ latency }: Result) => latency.p50,
  p99Ms: ({ latency }: Result) => latency.p99,
  serviceMicros: cpuOf('service'),
  signerMicros: cpuOf('signer'),
  postgresMicros: cpuOf('postgres'),
  serverMicros: ({ cpu }: Result) => cpu?.serverTotal,
  serviceFloors: floorsOf('service'),
  signerFloors: floorsOf('signer'),
  postgresFloors: floorsOf('postgres'),
  serverFloors: ({ floor }: Result) => floor?.serverRatio,
  serviceMemory: memoryOf('service'),
  signerMemory: memoryOf('signer'),
  postgresMemory: memoryOf('postgres'),
  serverMemory: ({ memory }: Result) => megabytes(sumOf(memory)),
} as const satisfies Record<string, (result: Result) => number | undefined>

export type FigureName = keyof typeof FIGURES

export const LABELS: Record<FigureName, string> = {
  perSecond: 'per second',
  p50Ms: 'latency p50, ms',
  p99Ms: 'latency p99, ms',
  serviceMicros: 'CPU service, µs',
  signerMicros: 'CPU signer, µs',
  postgresMicros: 'CPU PostgreSQL, µs',
  serverMicros: 'CPU in all, µs',
  serviceFloors: 'service, × floor',
  signerFloors: 'signer, × floor',
  postgresFloors: 'PostgreSQL, × floor',
  serverFloors: 'in all, × floor',
  serviceMemory: 'PSS service, MB',
  signerMemory: 'PSS signer, MB',
  postgresMemory: 'PSS PostgreSQL, MB',
  serverMemory: 'PSS in all, MB',
}

/** The turn of a server that did nothing of what was asked is broken. */
export function turnOf(result: Result): Turn {
  const [first] = result.failures
  if (result.succeeded > 0) return result
  return { broken: `nothing succeeded${first ? `; ${first.kind}: ${first.example}` : ''}` }
}

export function isBroken(turn: Turn): turn is Broken {
  return 'broken' in turn
}

export function summarize(scenario: ScenarioName, load: string, rounds: Turn[][]): Measured {
  const figures: Measured['figures'] = {}
  for (const [name, read] of Object.entries(FIGURES)) {
    const figure = figureOf(rounds.map((turns) => turns.map((turn) => (isBroken(turn) ? undefined : read(turn)))))
    // A part without any load, such as the signer in reads, is no figure.
    if (figure.servers.some((spread) => spread !== undefined && spread.highest > 0))
      figures[name as FigureName] = figure
  }
  return { scenario, load, rounds, figures }
}

/** True when every round, and not only one, says that a server differs from the first, and on which side. */
export function isBeyondSpread({ rounds }: Measured, { lowest, highest }: Spread): boolean {
  return rounds.length > 1 && (lowest > 1 || highest < 1)
}

/** A, B, C, … as texts call the servers. */
export function letterOf(index: number): string {
  return String.fromCharCode(65 + index)
}

export function nameOfLoad(load: LoadShape): string {
  if (load.kind === 'closed') return 'closed loop'
  if (load.ofMaximum !== undefined) return `open loop, ${Math.round(load.ofMaximum * 100)} %`
  return `open loop, ${load.perSecond}/s`
}

/** @param values By round, then by server. */
function figureOf(values: (number | undefined)[][]): Figure {
  const servers = (values[0] ?? []).map((_, index) => spreadOf(values.map((round) => round[index])))
  const ratios = servers.map((_, index) =>
    index === 0 ? undefined : spreadOf(values.map((round) => quotient(round[index], round[0]))),
  )
  return { servers, ratios }
}

function megabytes(bytes: number | undefined): number | undefined {
  return bytes === undefined ? undefined : bytes / 1_000_000
}

function quotient(value: number | undefined, by: number | undefined): number | undefined {
  return value === undefined || by === undefined || by === 0 ? undefined : value / by
}

/** The spread of the values that exist: a round with a broken server must not hide its other rounds. */
function spreadOf(values: (number | undefined)[]): Spread | undefined {
  const sorted = values.filter((value) => value !== undefined).sort((x, y) => x - y)
  const [lowest, highest] = [sorted[0], sorted.at(-1)]
  if (lowest === undefined || highest === undefined) return undefined
  const [low, high] = [sorted[(sorted.length - 1) >> 1] as number, sorted[sorted.length >> 1] as number]
  return { median: (low + high) / 2, lowest, highest }
}
