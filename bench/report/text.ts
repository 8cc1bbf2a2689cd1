/** One result as a text for a terminal. */

import { ROLES, type Role } from '../measure/server-cpu.ts'
import type { Latency } from '../measure/stats.ts'
import type { Subject } from '../servers/chancery.ts'
import { isGeneratorBusy, type Result } from './result.ts'
import {
  type Figure,
  type FigureName,
  isBeyondSpread,
  isBroken,
  LABELS,
  letterOf,
  type Measured,
  nameOfLoad,
  type Turn,
} from './summary.ts'

export const ROLE_NAMES: Record<Role, string> = { service: 'service', signer: 'signer', postgres: 'PostgreSQL' }
const COLUMNS = ['count', 'mean', 'p50', 'p90', 'p95', 'p99', 'max'] as const
/** Seven columns and the longest name of a step fit into 80. */
const COLUMN_WIDTH = 8

export function renderText(result: Result): string {
  const blocks = [headLines(result), latencyTable(result), cpuLines(result), troubleLines(result)]
  const shown = blocks.filter((lines) => lines.length > 0)
  return `${shown.map((lines) => lines.join('\n')).join('\n\n')}\n`
}

function headLines(result: Result): string[] {
  const { scenario, directory, challenge, load, clients, processes, accounts, seconds, certificatesChecked } = result
  const { perSecond, succeeded, failed, refused, dropped, signedRequests, badNonceRetries } = result
  const outcome = [
    `${number(perSecond)} per second: ${succeeded} succeeded, ${failed} failed`,
    ...(refused > 0 ? [`${refused} refused with 503 and Retry-After`] : []),
    ...(dropped > 0 ? [`${dropped} dropped before they began`] : []),
    ...(certificatesChecked > 0 ? [`${certificatesChecked} certificates checked (with warm-up)`] : []),
  ]
  const many = load.kind === 'closed' ? `${clients} clients` : `at most ${load.connections} connections`
  return [
    `${scenario} against ${directory}, challenge ${challenge}`,
    `${nameOfLoad(load)}, ${many}, ${processes} processes, ${accounts} accounts, ${seconds.toFixed(1)} s`,
    outcome.join(', '),
    ...(signedRequests > 0 ? [`${signedRequests} signed requests, ${badNonceRetries} badNonce retries`] : []),
  ]
}

function latencyTable({ scenario, latency, steps, lag }: Result): string[] {
  const rows: [string, Latency][] = [
    [scenario, latency],
    ...Object.entries(steps).map(([name, of]): [string, Latency] => [`  ${name}`, of]),
    ...(lag ? [['generator lag', lag] satisfies [string, Latency]] : []),
  ]
  const width = Math.max(...rows.map(([name]) => name.length), 12)
  const cell = (text: string) => text.padStart(COLUMN_WIDTH)
  const line = (row: Latency) => COLUMNS.map((name) => cell(name === 'count' ? String(row.count) : number(row[name])))
  return [
    'latency, ms'.padEnd(width) + COLUMNS.map(cell).join(''),
    ...rows.map(([name, row]) => name.padEnd(width) + line(row).join('')),
  ]
}

function cpuLines({ cpu, floor }: Result): string[] {
  if (!cpu) return []
  const figure = (name: string, micros: number | undefined, more = '') =>
    micros === undefined ? [] : [`  ${name.padEnd(16)}${number(micros).padStart(10)}${more}`]
  const ratio = floor?.serverRatio === undefined ? '' : `   server = ${floor.serverRatio.toFixed(2)} × floor`
  return [
    'CPU per operation, µs',
    ...ROLES.flatMap((role) => figure(ROLE_NAMES[role], cpu.server[role])),
    ...figure('server in all', cpu.serverTotal),
    ...figure('generator', cpu.generator),
    ...figure('responders', cpu.responder),
    ...figure('crypto floor', floor?.micros, ratio),
  ]
}

export function troubleLines(result: Result): string[] {
  const failures = result.failures.map(({ kind, count, example }) => `failed: ${count} × ${kind}, such as: ${example}`)
  return [...generatorWarning(result), ...warmupWarning(result), ...failures]
}

/** Empty when the generator had time to spare. */
function generatorWarning(result: Result): string[] {
  if (!isGeneratorBusy(result)) return []
  const { generatorCores, lag } = result
  const late = lag ? ` and was up to ${lag.p99.toFixed(0)} ms late (99 %)` : ''
  return [
    `the busiest generator process had ${(generatorCores * 100).toFixed(0)} % of a core in use${late}: ` +
      'it may be what limits these figures; give it a core of its own, or raise --processes',
  ]
}

/** Empty when the server was steady, or the time of the warm-up was given. */
export function warmupWarning({ warmup }: Result): string[] {
  if (!warmup || warmup.isSteady) return []
  return [
    `after ${warmup.seconds} s of warm-up the rate or the CPU per operation still changed by more than 5 %: ` +
      'these may be figures of a cold server or a busy machine; a longer warm-up is --warmup',
  ]
}

export function number(value: number): string {
  return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)
}

const SERIES = [
  'Only these two commits are compared: to judge a series of steps, name the',
  'commit before its first step with --compare.',
]
const LABEL_WIDTH = 20
const RATIO_WIDTH = 10

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
  if (!first) return [`${scenario}: no whole round`, ...roundTroubleLines(rounds)]
  return [
    `${scenario}, ${load}, challenge ${first.challenge}: ${rounds.length} × ${first.seconds.toFixed(1)} s each`,
    ...(servers === 1 ? medianTable(measured) : ratioTables(servers, measured)),
    ...roundTroubleLines(rounds),
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
function change(ratio: number): string {
  if (ratio >= 2) return `${ratio.toFixed(1)} times`
  const percent = Math.abs(ratio - 1) * 100
  return `${percent.toFixed(percent < 10 ? 1 : 0)} % ${ratio > 1 ? 'higher' : 'lower'}`
}

/** Failures and broken turns, by server. */
export function roundTroubleLines(rounds: readonly Turn[][]): string[] {
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
  return text.padStart(RATIO_WIDTH)
}
