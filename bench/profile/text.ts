/** The profile of a server as tables for a terminal, which are Markdown at the same time. */

import { type CostRow, PLACES, sumOf } from './costs.ts'
import type { ScenarioProfile } from './profile.ts'

const STATEMENTS_SHOWN = 20
const STATEMENT_CHARACTERS = 100
const NAME_WIDTH = 46

export function renderProfile(profile: ScenarioProfile): string {
  return [
    head(profile),
    cpuTable(profile),
    functionList('Largest functions, µs an operation', profile.functions, 1),
    functionList('Other, µs an operation', profile.otherFunctions, 1),
    statementTable(profile),
    delayTable(profile),
    allocationTable(profile),
    functionList('Largest allocations, bytes an operation', profile.allocatingFunctions, 0),
  ]
    .filter((lines) => lines.length > 0)
    .map((lines) => `${lines.join('\n')}\n`)
    .join('\n')
}

function head({ build, scenario, result, profiledPerSecond }: ScenarioProfile): string[] {
  const { clients, challenge, perSecond, succeeded, seconds, processor, node } = result
  return [
    `${scenario} (${challenge}) of ${build}: where the CPU of one operation goes`,
    `${clients} clients, ${succeeded} operations in ${seconds.toFixed(1)} s; ${perSecond.toFixed(0)} per second, ` +
      `${profiledPerSecond.toFixed(0)} while profiled; Node ${node}; ${processor}`,
  ]
}

function cpuTable({ cpu, elsewhere, result }: ScenarioProfile): string[] {
  const floor = result.floor?.micros
  const threads = sumOf(cpu, 'threads of service and signer')
  const all = threads.total + Object.values(elsewhere).reduce((sum, micros) => sum + micros, 0)
  const totals = (micros: number) => [whole(micros), percent(micros / all), floors(micros, floor)]
  const cells = ({ name, places, total }: CostRow) =>
    row(name, [...PLACES.map((place) => whole(places[place])), ...totals(total)])
  const only = (name: string, micros: number) => row(name, [...PLACES.map(() => ''), ...totals(micros)])
  return [
    row('µs an operation', [...PLACES, 'in all', '%', 'floors']),
    rule(PLACES.length + 3),
    ...cpu.map(cells),
    cells(threads),
    ...Object.entries(elsewhere)
      .sort(([, a], [, b]) => b - a)
      .map(([name, micros]) => only(name, micros)),
    only('in all', all),
    ...(floor === undefined ? [] : [only('crypto floor', floor)]),
  ]
}

function allocationTable({ allocations }: ScenarioProfile): string[] {
  const sum = sumOf(allocations, 'in all')
  const cells = ({ name, places, total }: CostRow) =>
    row(name, [...PLACES.map((place) => whole(places[place])), whole(total), percent(total / sum.total)])
  return [
    row('bytes allocated', [...PLACES, 'in all', '%']),
    rule(PLACES.length + 2),
    ...allocations.map(cells),
    cells(sum),
  ]
}

/** Seconds of the executor are those of a clock, and on a busy machine longer than its CPU. */
function statementTable({ database, result }: ScenarioProfile): string[] {
  const each = (total: number) => total / result.succeeded
  const { statements, commits, walBytes, walRecords } = database
  const rest = statements.slice(STATEMENTS_SHOWN)
  const sum = (pick: (statement: (typeof statements)[number]) => number, list = statements) =>
    list.reduce((total, statement) => total + pick(statement), 0)
  const cells = (name: string, list: typeof statements) =>
    row(name, [
      each(sum(({ calls }) => calls, list)).toFixed(3),
      each(sum(({ rows }) => rows, list)).toFixed(2),
      (
        sum(({ rows }) => rows, list) /
        Math.max(
          1,
          sum(({ calls }) => calls, list),
        )
      ).toFixed(2),
      each(1000 * sum(({ execMs }) => execMs, list)).toFixed(1),
      whole(each(sum((statement) => statement.walBytes, list))),
    ])
  return [
    row('for one operation', ['calls', 'rows', 'rows a call', 'executor µs', 'log bytes']),
    rule(5),
    ...statements.slice(0, STATEMENTS_SHOWN).map((statement) => cells(inShort(statement.text), [statement])),
    ...(rest.length > 0 ? [cells(`${rest.length} other statements`, rest)] : []),
    cells('in all', statements),
    '',
    `Commits: ${each(commits).toFixed(2)}; write-ahead log: ${each(walRecords).toFixed(1)} records, ${whole(each(walBytes))} bytes.`,
  ]
}

function delayTable({ loopDelays }: ScenarioProfile): string[] {
  const ms = (value: number) => value.toFixed(1)
  return [
    row('event loop delay, ms', ['p50', 'p99', 'max']),
    rule(3),
    ...loopDelays.map(({ thread, p50, p99, max }) => row(thread, [ms(p50), ms(p99), ms(max)])),
  ]
}

function functionList(title: string, functions: readonly [string, number][], digits: number): string[] {
  if (functions.length === 0) return []
  return [`${title}:`, ...functions.map(([name, cost]) => `${cost.toFixed(digits).padStart(9)}  ${name}`)]
}

function inShort(statement: string): string {
  const line = statement.replaceAll(/--.*$/gm, '').replaceAll(/\s+/g, ' ').replaceAll('|', '\\|').trim()
  return line.length > STATEMENT_CHARACTERS ? `${line.slice(0, STATEMENT_CHARACTERS - 1)}…` : line
}

function row(name: string, cells: readonly string[]): string {
  return `| ${name.padEnd(NAME_WIDTH)} | ${cells.map((cell) => cell.padStart(10)).join(' | ')} |`
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
