/** What a report with several servers or scenarios says in one table. */

import type { BenchDocument } from '../document.ts'
import { buildOverview } from '../overview.ts'
import type { FigureName, Measured } from '../summary.ts'
import { shortNumber } from './axes.ts'
import { type Column, element, type Markup, raw, table, text } from './markup.ts'

export function overviewSection({ servers, measurements }: BenchDocument): Markup {
  const overview = buildOverview(servers, measurements)
  const ofScenarios = measurements.filter(({ load, rounds }) => load === 'closed loop' && rounds.length > 0)
  const shown = overview ? serversTable(overview) : ofScenarios.length > 1 ? scenariosTable(ofScenarios) : undefined
  if (!shown) return raw('')
  const note = element('p', { class: 'note' }, text('Closed loop, medians of the rounds.'))
  return element('section', {}, element('h2', {}, text('In one table')), shown, note)
}

/** A row for each figure: there are more of these than servers. */
function serversTable({ columns, rows }: NonNullable<ReturnType<typeof buildOverview>>): Markup {
  type Row = { title: string; values: (number | undefined)[] }
  const figures = columns.map((title, index): Row => ({ title, values: rows.map(({ values }) => values[index]) }))
  return table<Row>(
    [
      { title: 'figure', kind: 'text', cell: ({ title }) => text(title) },
      ...rows.map(
        ({ server }, index): Column<Row> => ({
          title: server,
          kind: 'number',
          cell: ({ values }) => numberCell(values[index]),
        }),
      ),
    ],
    figures,
  )
}

const COLUMNS = {
  perSecond: 'per second',
  p50Ms: 'p50, ms',
  p99Ms: 'p99, ms',
  serverMicros: 'server CPU, µs',
  serverFloors: '× floor',
} as const satisfies Partial<Record<FigureName, string>>

/** Of one server. */
function scenariosTable(measurements: readonly Measured[]): Markup {
  return table<Measured>(
    [
      { title: 'scenario', kind: 'text', cell: ({ scenario }) => text(scenario) },
      ...(Object.keys(COLUMNS) as (keyof typeof COLUMNS)[]).map(
        (name): Column<Measured> => ({
          title: COLUMNS[name],
          kind: 'number',
          cell: ({ figures }) => numberCell(figures[name]?.servers[0]?.median),
        }),
      ),
    ],
    measurements,
  )
}

function numberCell(value: number | undefined): Markup {
  return text(value === undefined ? '–' : shortNumber(value))
}
