/** The part of a report about where the CPU of one operation goes. */

import { type CostRow, PLACES } from '../../profile/costs.ts'
import type { ScenarioProfile } from '../../profile/profile.ts'
import {
  allocationGrid,
  cpuGrid,
  databaseLine,
  delayGrid,
  type FunctionList,
  functionLists,
  head,
  statementGrid,
} from '../../profile/text.ts'
import { stackedBars } from './bars.ts'
import { element, gridTable, type Markup, text } from './markup.ts'

/** Grey: what no profile looks into. */
const ELSEWHERE_COLOR = 5

export function profileSection(profile: ScenarioProfile): Markup {
  const [title = '', ...lead] = head(profile)
  const { cpu, allocations } = functionLists(profile)
  const elsewhere = Object.entries(profile.elsewhere).map(([name, value]) => ({
    name,
    parts: [{ name: 'elsewhere', color: ELSEWHERE_COLOR, value }],
  }))
  return element(
    'section',
    {},
    element('h2', {}, text(title)),
    ...lead.map((line) => element('p', { class: 'lead' }, text(line))),
    element('div', { class: 'plots' }, [
      stackedBars('CPU of one operation by part, µs', 'µs', [...barsOf(profile.cpu), ...elsewhere]),
      stackedBars('Bytes allocated for one operation by part', 'bytes', barsOf(profile.allocations)),
    ]),
    gridTable(cpuGrid(profile)),
    ...cpu.map(functionDetails),
    gridTable(statementGrid(profile)),
    element('p', { class: 'note' }, text(databaseLine(profile))),
    gridTable(delayGrid(profile)),
    gridTable(allocationGrid(profile)),
    ...allocations.map(functionDetails),
  )
}

function barsOf(rows: readonly CostRow[]) {
  return rows.map(({ name, places }) => ({
    name,
    parts: PLACES.map((place, color) => ({ name: place, color, value: places[place] })),
  }))
}

function functionDetails({ title, functions, digits }: FunctionList): Markup {
  return element(
    'details',
    {},
    element('summary', {}, text(title)),
    gridTable({
      columns: ['', title.replace(/.*, /, '')],
      rows: functions.map(([name, cost]) => [name, cost.toFixed(digits)]),
    }),
  )
}
