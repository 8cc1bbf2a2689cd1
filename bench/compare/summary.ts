/**
 * What the rounds of a comparison say together, as plain data.
 *
 * Each round loads A and then B, so that both meet the same hour of the machine. Ratios are taken within a round and
 * summed up over the rounds, which cancels what drifts between them.
 */

import type { Role } from '../measure/server-cpu.ts'
import type { Result } from '../report/result.ts'
import type { ScenarioName } from '../scenario/table.ts'

export interface Round {
  a: Result
  b: Result
}

/** One figure of a scenario; medians over the rounds. */
export interface ComparedFigure {
  a: number
  b: number
  /** B divided by A. */
  ratio: number
  /** Of the ratios of single rounds. */
  lowest: number
  highest: number
}

export interface ScenarioComparison {
  scenario: ScenarioName
  rounds: Round[]
  /** Those that every round has on both sides, and that are not 0 for A. */
  figures: Partial<Record<FigureName, ComparedFigure>>
}

export interface Comparison {
  /** The working tree. */
  a: { name: string; commit: string }
  /** The commit that was asked for. */
  b: { name: string; commit: string }
  scenarios: ScenarioComparison[]
}

const cpuOf = (role: Role) => (result: Result) => result.cpu?.server[role]
const floorsOf = (role: Role) => (result: Result) => inFloors(result, result.cpu?.server[role])

/** Every figure by its name in the JSON file, in the order of the report. */
export const FIGURES = {
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
} as const satisfies Record<string, (result: Result) => number | undefined>

export type FigureName = keyof typeof FIGURES

export function compareRounds(scenario: ScenarioName, rounds: readonly Round[]): ScenarioComparison {
  const figures: ScenarioComparison['figures'] = {}
  for (const [name, read] of Object.entries(FIGURES)) {
    const pairs = rounds.map(({ a, b }) => ({ a: read(a), b: read(b) })).filter(isComparable)
    if (pairs.length === rounds.length && pairs.length > 0) figures[name as FigureName] = comparePairs(pairs)
  }
  return { scenario, rounds: [...rounds], figures }
}

/** True when every round, and not only one, says that A and B differ, and on which side. */
export function isBeyondSpread({ rounds }: ScenarioComparison, { lowest, highest }: ComparedFigure): boolean {
  return rounds.length > 1 && (lowest > 1 || highest < 1)
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((x, y) => x - y)
  const upper = Math.floor(sorted.length / 2)
  const [low, high] = [sorted[(sorted.length - 1) >> 1], sorted[upper]]
  if (low === undefined || high === undefined) throw new Error('no median of nothing')
  return (low + high) / 2
}

function comparePairs(pairs: readonly { a: number; b: number }[]): ComparedFigure {
  const ratios = pairs.map(({ a, b }) => b / a)
  return {
    a: median(pairs.map(({ a }) => a)),
    b: median(pairs.map(({ b }) => b)),
    ratio: median(ratios),
    lowest: Math.min(...ratios),
    highest: Math.max(...ratios),
  }
}

function isComparable(pair: { a: number | undefined; b: number | undefined }): pair is { a: number; b: number } {
  return pair.a !== undefined && pair.a !== 0 && pair.b !== undefined
}

function inFloors({ floor }: Result, micros: number | undefined): number | undefined {
  return floor === undefined || micros === undefined ? undefined : micros / floor.micros
}
