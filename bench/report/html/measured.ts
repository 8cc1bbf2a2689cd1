/** The part of a report about one scenario under one load: figures of all servers, and what stands behind them. */

import { ROLES } from '../../measure/server-cpu.ts'
import type { Subject } from '../../servers/contestant.ts'
import { change, LABELS } from '../comparison-text.ts'
import { isGeneratorBusy, type Result } from '../result.ts'
import {
  type Figure,
  type FigureName,
  isBeyondSpread,
  isBroken,
  letterOf,
  type Measured,
  type Spread,
} from '../summary.ts'
import { generatorWarning, ROLE_NAMES } from '../text.ts'
import { shortNumber } from './axes.ts'
import { ratioDots, stackedBars } from './bars.ts'
import { type Column, element, type Markup, raw, table, text } from './markup.ts'
import {
  cpuPlot,
  distributionPlot,
  latencyPlot,
  memoryPlot,
  ROLE_COLORS,
  stepCurves,
  throughputPlot,
  throughputsPlot,
} from './result-plots.ts'

export function measuredSection(servers: readonly Subject[], measured: Measured): Markup {
  const { scenario, load, rounds } = measured
  const typical = servers.map((_, index) => typicalOf(measured, index))
  const first = typical.find((result) => result !== undefined)
  return element(
    'section',
    {},
    element('h2', {}, text(`${scenario}, ${load}`)),
    first ? element('p', { class: 'lead' }, text(settingsOf(first, rounds.length))) : raw(''),
    troubles(servers, measured),
    tiles(measured, typical[0]),
    rounds.length > 1 || servers.length > 1 ? figuresTable(servers, measured) : raw(''),
    first ? element('div', { class: 'plots' }, plots(servers, measured, typical)) : raw(''),
    ...typical.flatMap((result, index) => (result ? [stepTable(nameOf(servers, index), result, index === 0)] : [])),
  )
}

/** "A" before the name where there are several. */
export function nameOf(servers: readonly Subject[], index: number): string {
  const name = servers[index]?.name ?? ''
  return servers.length > 1 ? `${letterOf(index)}  ${name}` : name
}

function settingsOf(
  { challenge, clients, processes, accounts, seconds, warmupSeconds, load }: Result,
  rounds: number,
): string {
  const how =
    load.kind === 'closed'
      ? `${clients} clients in a closed loop`
      : `arrivals at ${shortNumber(load.perSecond)} a second (Poisson), at most ${load.connections} connections, ${load.patienceSeconds} s of patience`
  return `${how}; ${processes} generator ${processes === 1 ? 'process' : 'processes'}, ${accounts} accounts, challenge ${challenge}; ${rounds} × ${shortNumber(seconds)} s after ${warmupSeconds} s of warm-up`
}

/** The run of a server whose throughput is in the middle of its rounds: its curves are the ones shown. */
export function typicalOf({ rounds }: Measured, server: number): Result | undefined {
  const results = rounds.flatMap((turns) => {
    const turn = turns[server]
    return turn && !isBroken(turn) ? [turn] : []
  })
  return results.toSorted((a, b) => a.perSecond - b.perSecond)[(results.length - 1) >> 1]
}

function tiles({ figures }: Measured, first: Result | undefined): Markup {
  const shown: [string, string | undefined][] = [
    ['per second', median(figures.perSecond)],
    ['ms, half are faster', median(figures.p50Ms)],
    ['ms, 99 % are faster', median(figures.p99Ms)],
    ['µs of server CPU an operation', median(figures.serverMicros)],
    ['times the crypto floor', median(figures.serverFloors)],
    [
      'certificates checked',
      first && first.certificatesChecked > 0 ? shortNumber(first.certificatesChecked) : undefined,
    ],
  ]
  return tileRow(shown)
}

/** Tiles of the figures that are there. */
export function tileRow(shown: readonly (readonly [label: string, value: string | undefined])[]): Markup {
  const present = shown.filter(([, value]) => value !== undefined)
  return element(
    'div',
    { class: 'tiles' },
    present.map(([label, value]) =>
      element('div', { class: 'tile' }, element('b', {}, text(value ?? '')), element('span', {}, text(label))),
    ),
  )
}

function median(figure: Figure | undefined): string | undefined {
  const spread = figure?.servers[0]
  return spread && shortNumber(spread.median)
}

function figuresTable(servers: readonly Subject[], measured: Measured): Markup {
  const rows = Object.entries(measured.figures) as [FigureName, Figure][]
  const columns: Column<[FigureName, Figure]>[] = [
    { title: 'figure', kind: 'text', cell: ([name]) => text(LABELS[name]) },
    ...servers.map((_, index) => ({
      title: servers.length > 1 ? nameOf(servers, index) : 'median and range',
      kind: 'number' as const,
      cell: ([, figure]: [FigureName, Figure]) => spreadCell(figure.servers[index]),
    })),
    ...servers.slice(1).map((_, index) => ({
      title: `${letterOf(index + 1)}/A`,
      kind: 'number' as const,
      cell: ([, figure]: [FigureName, Figure]) => spreadCell(figure.ratios[index + 1]),
    })),
    ...servers.slice(1).map((_, index) => ({
      title: `A to ${letterOf(index + 1)}`,
      kind: 'number' as const,
      cell: ([, figure]: [FigureName, Figure]) => verdictCell(measured, figure.ratios[index + 1]),
    })),
  ]
  return table(columns, rows)
}

function spreadCell(spread: Spread | undefined): Markup {
  if (!spread) return text('–')
  const { median: middle, lowest, highest } = spread
  if (lowest === highest) return text(shortNumber(middle))
  return raw(`${text(shortNumber(middle))} <small>${text(`${shortNumber(lowest)}–${shortNumber(highest)}`)}</small>`)
}

/** Only where every round says the same. */
function verdictCell(measured: Measured, ratio: Spread | undefined): Markup {
  return ratio && isBeyondSpread(measured, ratio) ? text(change(1 / ratio.median)) : text('')
}

function plots(servers: readonly Subject[], measured: Measured, typical: readonly (Result | undefined)[]): Markup[] {
  const all = typical.flatMap((result, index) => (result ? [{ result, name: nameOf(servers, index) }] : []))
  const ofEach = (title: string, draw: (title: string, result: Result) => Markup | undefined) =>
    typical.map((result, index) => result && draw(servers.length > 1 ? `${title}: ${letterOf(index)}` : title, result))
  const shown: (Markup | undefined)[] = [
    all.length > 1
      ? distributionPlot(
          'Latency of whole operations',
          all.map(({ result, name }) => ({ name, curve: result.curves.operation ?? [], count: result.latency.count })),
        )
      : undefined,
    ...ofEach('Latency by step', (title, result) => {
      const curves = stepCurves(result)
      if (curves.length > 1) return distributionPlot(title, curves)
      return servers.length === 1 ? distributionPlot('Latency of whole operations', curves) : undefined
    }),
    ...ratioPlots(servers, measured),
    cpuBars(all),
    all.length > 1 ? throughputsPlot('Throughput over time', all) : undefined,
    ...ofEach('Throughput over time', throughputPlot),
    ...ofEach('Latency over time', latencyPlot),
    ...ofEach('CPU over time', cpuPlot),
    ...ofEach('Memory over time', memoryPlot),
  ]
  return shown.filter((markup) => markup !== undefined)
}

const RATIO_FIGURES: readonly FigureName[] = ['perSecond', 'p50Ms', 'p99Ms', 'serverMicros', 'serverFloors']

function ratioPlots(servers: readonly Subject[], { figures }: Measured): Markup[] {
  return servers.slice(1).flatMap((_, index) => {
    const other = index + 1
    const rows = RATIO_FIGURES.flatMap((name) => {
      const ratio = figures[name]?.ratios[other]
      return ratio && ratio.lowest > 0 ? [{ name: LABELS[name], ...ratio, color: other % 8 }] : []
    })
    const note = 'Right of 1: more than A. A dot is the median of the rounds, a line their range.'
    return rows.length === 0 ? [] : [ratioDots(`${nameOf(servers, other)}, divided by A`, rows, note)]
  })
}

function cpuBars(all: readonly { result: Result; name: string }[]): Markup | undefined {
  const rows = all.flatMap(({ result: { cpu }, name }) => {
    if (cpu?.serverTotal === undefined) return []
    const parts = ROLES.flatMap((role) => {
      const value = cpu.server[role]
      return value === undefined ? [] : [{ name: ROLE_NAMES[role], color: ROLE_COLORS[role], value }]
    })
    return [{ name, parts }]
  })
  const floor = all[0]?.result.floor?.micros
  const floorRow =
    floor === undefined ? [] : [{ name: 'crypto floor', parts: [{ name: 'crypto floor', color: 5, value: floor }] }]
  return rows.length === 0 ? undefined : stackedBars('CPU per operation, µs', 'µs', [...rows, ...floorRow])
}

function stepTable(name: string, result: Result, isOpen: boolean): Markup {
  const steps = Object.entries(result.steps)
  const rows = [
    { name: result.scenario, of: result.latency },
    // A single step is the whole.
    ...(steps.length > 1 ? steps.map(([step, of]) => ({ name: step, of })) : []),
    ...Object.entries(result.refusals).map(([step, of]) => ({ name: `503 to ${step}`, of })),
    ...(result.lag ? [{ name: 'generator lag', of: result.lag }] : []),
  ]
  const figures = ['count', 'mean', 'p50', 'p90', 'p95', 'p99', 'max'] as const
  return element(
    'details',
    isOpen ? { open: '' } : {},
    element('summary', {}, text(`Latency in ms: ${name}`)),
    table(
      [
        { title: 'step', kind: 'text', cell: (row) => text(row.name) },
        ...figures.map(
          (key): Column<(typeof rows)[number]> => ({
            title: key,
            kind: 'number',
            cell: ({ of }) => text(shortNumber(of[key])),
          }),
        ),
      ],
      rows,
    ),
    element('p', { class: 'note' }, text(countsOf(result))),
  )
}

function countsOf({
  succeeded,
  failed,
  refused,
  dropped,
  signedRequests,
  badNonceRetries,
  sentBytes,
  receivedBytes,
  cpu,
}: Result): string {
  const each = (total: number) => shortNumber(total / Math.max(succeeded, 1))
  const generator = cpu ? `, ${shortNumber(cpu.generator)} µs of generator CPU` : ''
  return (
    `${shortNumber(succeeded)} succeeded, ${failed} failed, ${refused} refused, ${dropped} dropped. Per operation: ` +
    `${each(signedRequests)} signed requests, ${each(sentBytes)} bytes sent, ${each(receivedBytes)} received${generator}. badNonce retries: ${badNonceRetries}.`
  )
}

function troubles(servers: readonly Subject[], { rounds }: Measured): Markup {
  const lines = servers.flatMap((_, index) => {
    const turns = rounds.flatMap((turn) => turn[index] ?? [])
    const broken = turns.filter(isBroken)
    const failures = turns.flatMap((turn) => (isBroken(turn) ? [] : turn.failures))
    return [
      ...broken.map(({ broken: reason }) => `${nameOf(servers, index)} broke in a round: ${reason}`),
      ...turns.flatMap((turn) =>
        !isBroken(turn) && isGeneratorBusy(turn) ? [`${nameOf(servers, index)}: ${generatorWarning(turn)}`] : [],
      ),
      ...failures.map(
        ({ kind, count, example }) => `${nameOf(servers, index)}: ${count} × ${kind}, such as: ${example}`,
      ),
    ]
  })
  return raw(lines.map((line) => element('p', { class: 'bad' }, text(line))).join(''))
}
