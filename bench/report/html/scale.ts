/** The part of a report about more front threads and more instances. */

import { ROLES } from '../../measure/server-cpu.ts'
import type { ScaleRow } from '../../scale/result.ts'
import { SCALE_NOTE, scaleGrid, settingsOf, troubleLines } from '../../scale/text.ts'
import { letterOf } from '../summary.ts'
import { ROLE_NAMES } from '../text.ts'
import { ratioDots, stackedBars } from './bars.ts'
import { element, gridTable, type Markup, text } from './markup.ts'
import { ROLE_COLORS } from './result-plots.ts'

/** @param processors That the generators may use. */
export function scaleSection(rows: readonly ScaleRow[], processors: number): Markup {
  const first = rows[0]?.rounds[0]?.[0]
  const lead = first ? settingsOf(first, rows[0]?.rounds.length ?? 0) : 'no whole round'
  return element(
    'section',
    {},
    element('h2', {}, text('More front threads, more instances')),
    element('p', { class: 'lead' }, text(lead)),
    ...troubleLines(rows, processors).map((line) => element('p', { class: 'bad' }, text(line))),
    element('div', { class: 'plots' }, first ? plots(rows) : []),
    gridTable(scaleGrid(rows)),
    element('p', { class: 'note' }, text(SCALE_NOTE)),
  )
}

function plots(rows: readonly ScaleRow[]): Markup[] {
  const named = rows.map((row, index) => ({ ...row, name: `${letterOf(index)}: ${row.configuration.name}` }))
  const bars = (figure: 'perSecond' | 'perCore', color: number) =>
    named.map((row) => ({ name: row.name, parts: [{ name: figure, color, value: row[figure]?.median ?? 0 }] }))
  const cpu = named.map(({ name, cpu: byRole }) => ({
    name,
    parts: ROLES.flatMap((role) => {
      const spread = byRole[role]
      return spread ? [{ name: ROLE_NAMES[role], color: ROLE_COLORS[role], value: spread.median }] : []
    }),
  }))
  const ratios = named.flatMap(({ name, ratio, configuration: { comparedWith } }) =>
    ratio && ratio.lowest > 0 && comparedWith !== undefined
      ? [{ name: `${name}, by ${letterOf(comparedWith)}`, ...ratio, color: 0 }]
      : [],
  )
  return [
    stackedBars('Certificates per second', '', bars('perSecond', 0)),
    stackedBars('Certificates per second for each core used', '', bars('perCore', 1)),
    stackedBars('CPU of a certificate, µs', 'µs', cpu),
    ...(ratios.length > 0
      ? [ratioDots('Certificates for each core, by another configuration', ratios, 'Linear growth is 1.')]
      : []),
  ]
}
