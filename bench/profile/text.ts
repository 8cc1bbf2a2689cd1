/** The profile of a server as tables for a terminal, which are Markdown at the same time. */

import type { Grid } from '../report/grid.ts'
import { type CostRow, PLACES, sumOf } from './costs.ts'
import type { ScenarioProfile } from './profile.ts'
import type { StatementFigures } from './statements.ts'

const STATEMENTS_SHOWN = 20
const STATEMENT_CHARACTERS = 100
const NAME_WIDTH = 46

export function renderProfile(profile: ScenarioProfile): string {
  const { cpu, allocations } = functionLists(profile)
  return [
    head(profile),
    gridLines(cpuGrid(profile)),
    ...cpu.map(listLines),
    [...gridLines(statementGrid(profile)), '', databaseLine(profile)],
    gridLines(delayGrid(profile)),
    gridLines(allocationGrid(profile)),
    ...allocations.map(listLines),
  ]
    .filter((lines) => lines.length > 0)
    .map((lines) => `${lines.join('\n')}\n`)
    .join('\n')
}

/** Lines. */
export function head({ build, scenario, result, profiledPerSecond }: ScenarioProfile): string[] {
  const { clients, challenge, perSecond, succeeded, seconds, processor, node } = result
  return [
    `${scenario} (${challenge}) of ${build}: where the CPU of one operation goes`,
    `${clients} clients, ${succeeded} operations in ${seconds.toFixed(1)} s; ${perSecond.toFixed(0)} per second, ` +
      `${profiledPerSecond.toFixed(0)} while profiled; Node ${node}; ${processor}`,
  ]
}

/** What one operation costs, by part and by place; then what is no thread of JavaScript. */
export function cpuGrid({ cpu, elsewhere, result }: ScenarioProfile): Grid {
  const floor = result.floor?.micros
  const threads = sumOf(cpu, 'threads of service and signer')
  const all = threads.total + Object.values(elsewhere).reduce((sum, micros) => sum + micros, 0)
  const totals = (micros: number) => [whole(micros), percent(micros / all), floors(micros, floor)]
  const cells = ({ name, places, total }: CostRow) => [
    name,
    ...PLACES.map((place) => whole(places[place])),
    ...totals(total),
  ]
  const only = (name: string, micros: number) => [name, ...PLACES.map(() => ''), ...totals(micros)]
  return {
    columns: ['µs an operation', ...PLACES, 'in all', '%', 'floors'],
    rows: [
      ...cpu.map(cells),
      cells(threads),
      ...Object.entries(elsewhere)
        .sort(([, a], [, b]) => b - a)
        .map(([name, micros]) => only(name, micros)),
      only('in all', all),
      ...(floor === undefined ? [] : [only('crypto floor', floor)]),
    ],
  }
}

export function allocationGrid({ allocations }: ScenarioProfile): Grid {
  const sum = sumOf(allocations, 'in all')
  const cells = ({ name, places, total }: CostRow) => [
    name,
    ...PLACES.map((place) => whole(places[place])),
    ...[whole(total), percent(total / sum.total)],
  ]
  return { columns: ['bytes allocated', ...PLACES, 'in all', '%'], rows: [...allocations, sum].map(cells) }
}

/** Seconds of the executor are those of a clock, and on a busy machine longer than its CPU. */
export function statementGrid({ database: { statements }, result }: ScenarioProfile): Grid {
  const each = (total: number) => total / result.succeeded
  const cells = (name: string, list: readonly StatementFigures[]) => {
    const sum = (key: 'calls' | 'rows' | 'execMs' | 'walBytes') => list.reduce((total, one) => total + one[key], 0)
    return [
      name,
      each(sum('calls')).toFixed(3),
      each(sum('rows')).toFixed(2),
      (sum('rows') / Math.max(1, sum('calls'))).toFixed(2),
      each(1000 * sum('execMs')).toFixed(1),
      whole(each(sum('walBytes'))),
    ]
  }
  const rest = statements.slice(STATEMENTS_SHOWN)
  return {
    columns: ['for one operation', 'calls', 'rows', 'rows a call', 'executor µs', 'log bytes'],
    rows: [
      ...statements.slice(0, STATEMENTS_SHOWN).map((statement) => cells(inShort(statement.text), [statement])),
      ...(rest.length > 0 ? [cells(`${rest.length} other statements`, rest)] : []),
      cells('in all', statements),
    ],
  }
}

export function databaseLine({ database: { commits, walBytes, walRecords }, result }: ScenarioProfile): string {
  const each = (total: number) => total / result.succeeded
  return `Commits: ${each(commits).toFixed(2)}; write-ahead log: ${each(walRecords).toFixed(1)} records, ${whole(each(walBytes))} bytes.`
}

export function delayGrid({ loopDelays }: ScenarioProfile): Grid {
  const ms = (value: number) => value.toFixed(1)
  return {
    columns: ['event loop delay, ms', 'p50', 'p99', 'max'],
    rows: loopDelays.map(({ thread, p50, p99, max }) => [thread, ms(p50), ms(p99), ms(max)]),
  }
}

/** The lists of functions, with their titles. */
export function functionLists(profile: ScenarioProfile): { cpu: FunctionList[]; allocations: FunctionList[] } {
  return {
    cpu: [
      { title: 'Largest functions, µs an operation', functions: profile.functions, digits: 1 },
      { title: 'Other, µs an operation', functions: profile.otherFunctions, digits: 1 },
    ],
    allocations: [
      { title: 'Largest allocations, bytes an operation', functions: profile.allocatingFunctions, digits: 0 },
    ],
  }
}

export interface FunctionList {
  title: string
  functions: readonly [name: string, cost: number][]
  digits: number
}

function gridLines({ columns, rows }: Grid): string[] {
  return [row(columns), rule(columns.length - 1), ...rows.map(row)]
}

function listLines({ title, functions, digits }: FunctionList): string[] {
  if (functions.length === 0) return []
  return [`${title}:`, ...functions.map(([name, cost]) => `${cost.toFixed(digits).padStart(9)}  ${name}`)]
}

function inShort(statement: string): string {
  const line = statement.replaceAll(/--.*$/gm, '').replaceAll(/\s+/g, ' ').trim()
  return line.length > STATEMENT_CHARACTERS ? `${line.slice(0, STATEMENT_CHARACTERS - 1)}…` : line
}

function row([name = '', ...cells]: readonly string[]): string {
  return `| ${name.replaceAll('|', '\\|').padEnd(NAME_WIDTH)} | ${cells.map((cell) => cell.padStart(10)).join(' | ')} |`
}

function rule(columns: number): string {
  return `|${'-'.repeat(NAME_WIDTH + 2)}|${`${'-'.repeat(11)}:|`.repeat(columns)}`
}

function whole(value: number): string {
  return Math.round(value).toLocaleString('en')
}

function percent(share: number): string {
  return (100 * share).toFixed(1)
}

function floors(micros: number, floor: number | undefined): string {
  return floor === undefined ? '' : (micros / floor).toFixed(2)
}
