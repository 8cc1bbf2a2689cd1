/** What the rounds of a run say together, as a text for a terminal: medians, spread, and ratios to the first server. */

import type { Subject } from '../servers/contestant.ts'
import { buildOverview, type Overview } from './overview.ts'
import { isGeneratorBusy, type Result } from './result.ts'
import {
  type Figure,
  type FigureName,
  isBeyondSpread,
  isBroken,
  letterOf,
  type Measured,
  type Spread,
  type Turn,
} from './summary.ts'
import { generatorWarning, number } from './text.ts'

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
}
const LABEL_WIDTH = 20
const COLUMN_WIDTH = 10

export function renderSummary(servers: readonly Subject[], measured: readonly Measured[]): string {
  const overview = buildOverview(servers, measured)
  const blocks = [
    headLines(servers),
    ...measured.map((one) => renderMeasured(servers.length, one)),
    ...(overview ? [overviewTable(overview)] : []),
  ]
  return `${blocks.map((lines) => lines.join('\n')).join('\n\n')}\n`
}

/** In Markdown, so that it can stand in a document as it is. */
function overviewTable({ columns, rows }: Overview): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [
    line(['', ...columns]),
    line(['---', ...columns.map(() => '---:')]),
    ...rows.map(({ server, values }) =>
      line([server, ...values.map((value) => (value === undefined ? '–' : number(value)))]),
    ),
  ]
}

function headLines(servers: readonly Subject[]): string[] {
  const names = servers.map(({ name, note }, index) => `${letterOf(index)}  ${name}${note === '' ? '' : `: ${note}`}`)
  if (servers.length === 1) return [...names, 'Medians of the rounds, and their range.']
  return [
    ...names,
    'Loaded in turn; medians of the rounds, ratios within each round and their range.',
    'The last column stands where every round puts A on the same side.',
  ]
}

/** Lines. */
export function renderMeasured(servers: number, measured: Measured): string[] {
  const { scenario, load, rounds, figures } = measured
  const first = rounds.flat().find((turn): turn is Result => !isBroken(turn))
  if (!first) return [`${scenario}: no whole round`, ...troubleLines(rounds)]
  const { challenge, seconds } = first
  return [
    `${scenario}, ${load}, challenge ${challenge}: ${rounds.length} × ${seconds.toFixed(1)} s each`,
    ...(servers === 1 ? spreadTable(figures) : ratioTables(servers, measured)),
    ...troubleLines(rounds),
  ]
}

function spreadTable(figures: Measured['figures']): string[] {
  return [
    `${''.padEnd(LABEL_WIDTH)}${column('median')}   lowest–highest`,
    ...entriesOf(figures).flatMap(([name, { servers }]) => {
      const spread = servers[0]
      if (!spread) return []
      const range = `${number(spread.lowest)}–${number(spread.highest)}`.padStart(17)
      return [`${LABELS[name].padEnd(LABEL_WIDTH)}${column(number(spread.median))}${range}`]
    }),
  ]
}

/** Two servers stand in one table; of more, each stands beside the first in a table of its own. */
function ratioTables(count: number, measured: Measured): string[] {
  return Array.from({ length: count - 1 }, (_, index) => index + 1).flatMap((other) => {
    const letter = letterOf(other)
    const columns = ['A', letter, `${letter}/A`].map(column).join('')
    const lines = entriesOf(measured.figures).flatMap(([name, figure]) =>
      ratioLine(LABELS[name], figure, other, measured),
    )
    return [`${''.padEnd(LABEL_WIDTH)}${columns}   lowest–highest   A is`, ...lines]
  })
}

function ratioLine(label: string, { servers, ratios }: Figure, other: number, measured: Measured): string[] {
  const [a, b, ratio] = [servers[0], servers[other], ratios[other]]
  if (!a && !b) return []
  const values = [shown(a), shown(b), ratio ? ratio.median.toFixed(2) : '–'].map(column).join('')
  const range = ratio ? `${ratio.lowest.toFixed(2)}–${ratio.highest.toFixed(2)}` : ''
  const verdict = ratio && isBeyondSpread(measured, ratio) ? change(1 / ratio.median) : ''
  return [`${label.padEnd(LABEL_WIDTH)}${values}${range.padStart(17)}   ${verdict}`.trimEnd()]
}

/** How A stands to the other: in percent, or how many times beyond that. */
export function change(ratio: number): string {
  if (ratio >= 2) return `${ratio.toFixed(1)} times`
  const percent = Math.abs(ratio - 1) * 100
  return `${percent.toFixed(percent < 10 ? 1 : 0)} % ${ratio > 1 ? 'higher' : 'lower'}`
}

/** What went wrong, by server. */
function troubleLines(rounds: readonly Turn[][]): string[] {
  return (rounds[0] ?? []).flatMap((_, index) => {
    const turns = rounds.flatMap((round) => round[index] ?? [])
    const letter = letterOf(index)
    const broken = turns.filter(isBroken)
    const failures = turns.flatMap((turn) => (isBroken(turn) ? [] : turn.failures))
    const count = failures.reduce((sum, failure) => sum + failure.count, 0)
    return [
      ...broken
        .slice(0, 1)
        .map(({ broken: reason }) => `${letter}: broken in ${broken.length} of ${turns.length} rounds: ${reason}`),
      ...turns
        .flatMap((turn) => (!isBroken(turn) && isGeneratorBusy(turn) ? [`${letter}: ${generatorWarning(turn)}`] : []))
        .slice(0, 1),
      ...failures.slice(0, 1).map(({ kind, example }) => `${letter}: ${count} failed, such as ${kind}: ${example}`),
    ]
  })
}

function entriesOf(figures: Measured['figures']): [FigureName, Figure][] {
  return Object.entries(figures) as [FigureName, Figure][]
}

function shown(spread: Spread | undefined): string {
  return spread ? number(spread.median) : '–'
}

function column(text: string): string {
  return text.padStart(COLUMN_WIDTH)
}
