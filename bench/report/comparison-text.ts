/** A comparison as a text for a terminal. */

import {
  type ComparedFigure,
  type Comparison,
  type FigureName,
  isBeyondSpread,
  type ScenarioComparison,
} from '../compare/summary.ts'
import type { Result } from './result.ts'

const LABELS: Record<FigureName, string> = {
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
}
const LABEL_WIDTH = 20

export function renderComparison({ a, b, scenarios }: Comparison): string {
  const head = [
    `A  ${a.name}`,
    `B  ${b.name}`,
    'Loaded in turn; medians of the rounds, ratios within each round and their range.',
    'The last column stands where every round puts A on the same side of B.',
  ]
  return `${[head, ...scenarios.map(scenarioLines)].map((lines) => lines.join('\n')).join('\n\n')}\n`
}

function scenarioLines(compared: ScenarioComparison): string[] {
  const { scenario, rounds, figures } = compared
  const [first] = rounds
  if (!first) return [`${scenario}: no whole round`]
  const { clients, challenge, seconds } = first.a
  const columns = ['A', 'B', 'B/A'].map((name) => name.padStart(10)).join('')
  return [
    `${scenario}, ${clients} clients, challenge ${challenge}: ${rounds.length} × ${seconds.toFixed(1)} s each`,
    `${''.padEnd(LABEL_WIDTH)}${columns}   lowest–highest   A is`,
    ...Object.entries(figures).map(([name, figure]) => figureLine(LABELS[name as FigureName], figure, compared)),
    ...failureLine(
      'A',
      rounds.map(({ a }) => a),
    ),
    ...failureLine(
      'B',
      rounds.map(({ b }) => b),
    ),
  ]
}

function figureLine(label: string, figure: ComparedFigure, compared: ScenarioComparison): string {
  const { a, b, ratio, lowest, highest } = figure
  const values = [number(a), number(b), ratio.toFixed(2)].map((text) => text.padStart(10)).join('')
  const range = `${lowest.toFixed(2)}–${highest.toFixed(2)}`.padStart(17)
  return `${label.padEnd(LABEL_WIDTH)}${values}${range}   ${isBeyondSpread(compared, figure) ? change(1 / ratio) : ''}`.trimEnd()
}

/** How A stands to B. */
function change(ratio: number): string {
  const percent = Math.abs(ratio - 1) * 100
  return `${percent.toFixed(percent < 10 ? 1 : 0)} % ${ratio > 1 ? 'higher' : 'lower'}`
}

function failureLine(side: string, results: readonly Result[]): string[] {
  const failures = results.flatMap((result) => result.failures)
  if (failures.length === 0) return []
  const [{ kind, example } = { kind: '', example: '' }] = failures
  const count = failures.reduce((sum, failure) => sum + failure.count, 0)
  return [`${side}: ${count} failed, such as ${kind}: ${example}`]
}

function number(value: number): string {
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)
}
