/** The part of a report about an overload run. */

import { NO_OVERLOAD, type OverloadResult, wasNoOverload } from '../../overload/result.ts'
import { isGeneratorBusy } from '../result.ts'
import { generatorWarning, ROLE_NAMES } from '../text.ts'
import { shortNumber } from './axes.ts'
import { element, type Markup, raw, table, text } from './markup.ts'
import { tileRow } from './measured.ts'
import type { Line } from './plot.ts'
import {
  cpuPlot,
  distributionPlot,
  latencyPlot,
  memoryPlot,
  stepCurves,
  throughputPlot,
  WHOLE,
} from './result-plots.ts'

const MEBIBYTE = 1024 * 1024
/** Of the maximum: what should come out of a server that is asked for too much. */
const GOAL = 0.8

export function overloadSection(result: OverloadResult): Markup {
  const { run, maximum, parts, server } = result
  const flood = parts.find(({ name }) => name === 'flood')
  const band = flood && {
    from: flood.from,
    to: flood.to,
    name: `${shortNumber(flood.perSecond / maximum.perSecond)} × the maximum`,
  }
  const inBand = band ? { band } : {}
  const planned: Line = {
    ...{ name: 'planned', color: 5, style: 'dashed' },
    points: parts.flatMap(
      ({ from, to, perSecond }) =>
        [
          [from, perSecond],
          [to, perSecond],
        ] as const,
    ),
  }
  const goal = { at: GOAL * maximum.perSecond, name: `${GOAL * 100} % of the maximum` }
  const plots = [
    throughputPlot('What became of the arrivals', run, { ...inBand, goal }, [planned]),
    latencyPlot('Latency of what succeeded, by when it was due', run, inBand),
    cpuPlot('CPU of the server', run, inBand),
    memoryPlot('Memory of the server', run, inBand),
    distributionPlot('Latency of successes and refusals', refusalCurves(result)),
  ]
  return element(
    'section',
    {},
    element('h2', {}, text(`Overload with ${run.scenario}`)),
    element('p', { class: 'lead' }, text(leadOf(result))),
    tileRow([
      ['goodput in the flood, of the maximum', percent(result.goodputShare)],
      [`in its worst ${shortNumber(result.worstSeconds)} s`, percent(result.worstGoodputShare)],
      ['of what reached the server got 503', percent(result.refusedShare)],
      [
        'µs of server CPU a refusal',
        result.refusalMicros === undefined ? undefined : shortNumber(result.refusalMicros),
      ],
      [
        'until latency was back',
        result.recoverySeconds === undefined ? 'not in the run' : `${result.recoverySeconds.toFixed(1)} s`,
      ],
    ]),
    element(
      'div',
      { class: 'plots' },
      plots.filter((markup) => markup !== undefined),
    ),
    latencyTable(result),
    memoryTable(result),
    element(
      'p',
      { class: 'note' },
      text(`Server: ${server}. Counts stand where operations ended, latencies where they were due.`),
    ),
    isGeneratorBusy(run) ? element('p', { class: 'bad' }, text(generatorWarning(run))) : raw(''),
    wasNoOverload(result) ? element('p', { class: 'bad' }, text(NO_OVERLOAD)) : raw(''),
    ...run.failures.map(({ kind, count, example }) =>
      element('p', { class: 'bad' }, text(`${count} × ${kind}, such as: ${example}`)),
    ),
  )
}

function leadOf({ maximum, parts, run, flood }: OverloadResult): string {
  const rates = parts.map(({ perSecond, from, to }) => `${shortNumber(perSecond)}/s for ${shortNumber(to - from)} s`)
  const connections = run.load.kind === 'open' ? run.load.connections : 0
  return (
    `A closed loop of ${maximum.clients} clients reached ${shortNumber(maximum.perSecond)}/s. Then, in one open loop without a pause: ${rates.join(', ')}, ` +
    `over at most ${connections} connections. In the flood ${shortNumber(flood.succeeded)} succeeded, ${shortNumber(flood.refused)} were refused with 503 and Retry-After, ` +
    `${shortNumber(flood.dropped)} found no connection in time, ${shortNumber(flood.failed)} failed.`
  )
}

function latencyTable({ latencyBefore, latencyInFlood, latencyAfter, run }: OverloadResult): Markup {
  const rows = [
    { name: 'before', of: latencyBefore },
    { name: 'in the flood', of: latencyInFlood },
    { name: 'after', of: latencyAfter },
    ...Object.entries(run.refusals).map(([step, of]) => ({ name: `503 to ${step}`, of })),
  ]
  const keys = ['count', 'p50', 'p95', 'p99', 'max'] as const
  return table(
    [
      { title: 'latency, ms', kind: 'text', cell: ({ name }) => text(name) },
      ...keys.map((key) => ({
        title: key,
        kind: 'number' as const,
        cell: ({ of }: (typeof rows)[number]) => text(shortNumber(of[key])),
      })),
    ],
    rows,
  )
}

function memoryTable({ memory }: OverloadResult): Markup {
  const roles = Object.keys(memory.most) as (keyof typeof memory.most)[]
  const moments = { before: 'before', most: 'most in the flood', after: 'after' } as const
  return table(
    [
      { title: 'memory, MiB', kind: 'text', cell: (role) => text(ROLE_NAMES[role]) },
      ...(Object.keys(moments) as (keyof typeof moments)[]).map((moment) => ({
        title: moments[moment],
        kind: 'number' as const,
        cell: (role: (typeof roles)[number]) => text(shortNumber((memory[moment][role] ?? 0) / MEBIBYTE)),
      })),
    ],
    roles,
  )
}

/** Of the whole run. */
function refusalCurves({ run }: OverloadResult) {
  return stepCurves(run).filter(({ name }) => name === WHOLE || name.startsWith('503 to '))
}

function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`
}
