/** The summary of a run as a text for a terminal: medians, spread, and ratios to the first server. */

import type { Subject } from '../servers/contestant.ts'
import type { Result } from './result.ts'
import {
  type Figure,
  type FigureName,
  isBeyondSpread,
  isBroken,
  LABELS,
  letterOf,
  type Measured,
  type Turn,
} from './summary.ts'
import { generatorWarning, number, warmupWarning } from './text.ts'

const SERIES = [
  'Only these two commits are compared: to judge a series of steps, name the',
  'commit before its first step with --compare.',
]
const LABEL_WIDTH = 20
const COLUMN_WIDTH = 10

export function renderSummary(servers: readonly Subject[], measured: readonly Measured[]): string {
  const names = servers.map(({ name, note }, index) => `${letterOf(index)}  ${name}${note === '' ? '' : `: ${note}`}`)
  const explained =
    servers.length === 1
      ? ['Medians of the rounds, and their range.']
      : [
          'Loaded in turn; medians of the rounds, ratios within each round and their range.',
          'The last column stands where every round puts A on the same side.',
          ...(servers.filter(({ commit }) => commit !== undefined).length > 1 ? SERIES : []),
        ]
  const blocks = [[...names, ...explained], ...measured.map((one) => renderMeasured(servers.length, one))]
  return `${blocks.map((lines) => lines.join('\n')).join('\n\n')}\n`
}

/** Lines. */
function renderMeasured(servers: number, measured: Measured): string[] {
  const { scenario, load, rounds } = measured
  const first = rounds.flat().find((turn): turn is Result => !isBroken(turn))
  if (!first) return [`${scenario}: no whole round`, ...troubleLines(rounds)]
  return [
    `${scenario}, ${load}, challenge ${first.challenge}: ${rounds.length} × ${first.seconds.toFixed(1)} s each`,
    ...(servers === 1 ? medianTable(measured) : ratioTables(servers, measured)),
    ...troubleLines(rounds),
  ]
}

function medianTable({ figures }: Measured): string[] {
  const rows = entriesOf(figures).map(([name, { servers }]) => {
    const { median = 0, lowest = 0, highest = 0 } = servers[0] ?? {}
    return LABELS[name].padEnd(LABEL_WIDTH) + column(number(median)) + range(number(lowest), number(highest))
  })
  return [`${''.padEnd(LABEL_WIDTH)}${column('median')}   lowest–highest`, ...rows]
}

/** Each of the others has a table of its own, beside the first. */
function ratioTables(count: number, measured: Measured): string[] {
  return Array.from({ length: count - 1 }, (_, index) => index + 1).flatMap((other) => {
    const columns = ['A', letterOf(other), `${letterOf(other)}/A`].map(column).join('')
    return [
      `${''.padEnd(LABEL_WIDTH)}${columns}   lowest–highest   A is`,
      ...entriesOf(measured.figures).map(([name, figure]) => ratioLine(LABELS[name], figure, other, measured)),
    ]
  })
}

function ratioLine(label: string, { servers, ratios }: Figure, other: number, measured: Measured): string {
  const [a, b, ratio] = [servers[0], servers[other], ratios[other]]
  const shown = (value: number | undefined, write = number) => column(value === undefined ? '–' : write(value))
  const values = shown(a?.median) + shown(b?.median) + shown(ratio?.median, (value) => value.toFixed(2))
  const spread = ratio ? range(ratio.lowest.toFixed(2), ratio.highest.toFixed(2)) : range('', '', '')
  const verdict = ratio && isBeyondSpread(measured, ratio) ? change(1 / ratio.median) : ''
  return `${label.padEnd(LABEL_WIDTH)}${values}${spread}   ${verdict}`.trimEnd()
}

/** The difference in percent, or how many times from twofold up. */
export function change(ratio: number): string {
  if (ratio >= 2) return `${ratio.toFixed(1)} times`
  const percent = Math.abs(ratio - 1) * 100
  return `${percent.toFixed(percent < 10 ? 1 : 0)} % ${ratio > 1 ? 'higher' : 'lower'}`
}

/** Failures and broken turns, by server. */
function troubleLines(rounds: readonly Turn[][]): string[] {
  return (rounds[0] ?? []).flatMap((_, index) => {
    const turns = rounds.flatMap((round) => round[index] ?? [])
    const letter = letterOf(index)
    const broken = turns.filter(isBroken)
    const results = turns.filter((turn): turn is Result => !isBroken(turn))
    const [failure] = results.flatMap(({ failures }) => failures)
    const failed = results.reduce((sum, result) => sum + result.failed, 0)
    const warnings = [generatorWarning, warmupWarning].flatMap((of) => results.flatMap(of).slice(0, 1))
    return [
      ...(broken[0] ? [`${letter}: broken in ${broken.length} of ${turns.length} rounds: ${broken[0].broken}`] : []),
      ...warnings.map((warning) => `${letter}: ${warning}`),
      ...(failure ? [`${letter}: ${failed} failed, such as ${failure.kind}: ${failure.example}`] : []),
    ]
  })
}

function entriesOf(figures: Measured['figures']): [FigureName, Figure][] {
  return Object.entries(figures) as [FigureName, Figure][]
}

function range(lowest: string, highest: string, dash = '–'): string {
  return `${lowest}${dash}${highest}`.padStart(17)
}

function column(text: string): string {
  return text.padStart(COLUMN_WIDTH)
}
