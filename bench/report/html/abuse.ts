/** The part of a report about what abusive clients cost the others. */

import type { AbuseResult } from '../../abuse/result.ts'
import { shortNumber } from './axes.ts'
import { ratioDots } from './bars.ts'
import { element, type Markup, table, text } from './markup.ts'
import { typicalOf } from './measured.ts'
import { throughputsPlot } from './result-plots.ts'

/** Of all kinds together. */
export function abuseSection(results: readonly AbuseResult[]): Markup {
  const isOne = new Set(results.map(({ server }) => server)).size === 1
  const nameOf = ({ kind, server }: Pick<AbuseResult, 'kind' | 'server'>) => (isOne ? kind : `${kind}, ${server}`)
  const ratioRows = (figure: 'perSecond' | 'p99Ms') =>
    results.flatMap(({ kind, server, others }) => {
      const ratio = others.figures[figure]?.ratios[1]
      return ratio && ratio.lowest > 0
        ? [{ name: nameOf({ kind, server }), ...ratio, color: figure === 'perSecond' ? 0 : 1 }]
        : []
    })
  const note = 'A dot is the median of the rounds, a line their range; 1 is as without the abuser.'
  return element(
    'section',
    {},
    element('h2', {}, text('Beside one abusive client')),
    element(
      'p',
      { class: 'lead' },
      text('Well-behaved clients in a closed loop, alone and beside the abuser in turn.'),
    ),
    element('div', { class: 'plots' }, [
      ratioDots('Throughput of the others, beside by alone', ratioRows('perSecond'), note),
      ratioDots('Their 99 % latency, beside by alone', ratioRows('p99Ms'), note),
      ...results.flatMap((result) => overTime(result, nameOf(result))),
    ]),
    table(
      [
        { title: 'server', kind: 'text', cell: ({ server }) => text(server) },
        { title: 'abuse', kind: 'text', cell: ({ kind }) => text(kind) },
        { title: 'connections', kind: 'number', cell: ({ connections }) => text(shortNumber(connections)) },
        { title: 'alone, per second', kind: 'number', cell: (result) => text(medianOf(result, 0)) },
        { title: 'beside it', kind: 'number', cell: (result) => text(medianOf(result, 1)) },
        {
          title: 'ended by the server',
          kind: 'number',
          cell: ({ abuser }) => text(shortNumber(abuser.at(-1)?.closedByServer ?? 0)),
        },
        { title: 'acts', kind: 'number', cell: ({ abuser }) => text(shortNumber(abuser.at(-1)?.acts ?? 0)) },
        { title: 'answers', kind: 'text', cell: ({ abuser }) => text(answersOf(abuser.at(-1)?.answers ?? {})) },
      ],
      results,
    ),
  )
}

/** Of the others, in rounds that are in the middle. */
function overTime({ others }: AbuseResult, name: string): Markup[] {
  const runs = ['alone', 'beside the abuser'].flatMap((who, index) => {
    const result = typicalOf(others, index)
    return result ? [{ name: who, result }] : []
  })
  return runs.length === 0 ? [] : [throughputsPlot(`Throughput of the others over time: ${name}`, runs)]
}

function medianOf({ others }: AbuseResult, index: number): string {
  const spread = others.figures.perSecond?.servers[index]
  return spread ? shortNumber(spread.median) : '–'
}

function answersOf(answers: Readonly<Record<string, number>>): string {
  return Object.entries(answers)
    .map(([answer, count]) => `${shortNumber(count)} × ${answer}`)
    .join(', ')
}
