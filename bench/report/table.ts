/** The table (`bench/table.ts`) as plain data, and as cells for a terminal and for docs/benchmarks.md. Pure. */

import type { Subject } from '../servers/chancery.ts'
import { type Figure, type FigureName, isBroken, letterOf, type Measured, type Spread, type Turn } from './summary.ts'

/** Accounts come last before the next start, because a server that keeps so many may be slower in what follows. */
export const ROW_NAMES = [
  'certificate-cold',
  'certificate-warm',
  'order-warm',
  'read-warm',
  'account-warm',
  'certificate-http-01-cold',
] as const
export type RowName = (typeof ROW_NAMES)[number]

/** It sums all rounds up. */
interface Load {
  clients: number | undefined
  /** Operations that were begun, and those that were answered 503. */
  offered: number
  refused: number
  /** Why the server has no figure in one of the rounds. */
  broken: string | undefined
}

export interface TableRow extends Pick<Measured, 'scenario' | 'load' | 'figures'> {
  name: RowName
  /** By server. */
  loads: Load[]
}

export interface Table {
  rounds: number
  rows: TableRow[]
}

const OF_CPU: readonly FigureName[] = ['serverMicros', 'serverFloors', 'perSecond']
const OF_MEMORY: readonly FigureName[] = ['serviceMemory', 'signerMemory', 'postgresMemory', 'serverMemory']
/** Where memory is a figure: the most certificates, and the most accounts. */
const WITH_MEMORY: readonly RowName[] = ['certificate-warm', 'account-warm']
const COLD: readonly RowName[] = ['certificate-cold', 'certificate-http-01-cold']

/** @param measured In the order of `ROW_NAMES`. */
export function tableOf(measured: readonly Measured[]): Table {
  const rows = measured.map(({ scenario, load, rounds, figures }, index): TableRow => {
    const name = ROW_NAMES[index]!
    const kept = [...OF_CPU, ...(WITH_MEMORY.includes(name) ? OF_MEMORY : [])]
    const shown = kept.flatMap((figure) => (figures[figure] ? [[figure, figures[figure]] as const] : []))
    const loads = (rounds[0] ?? []).map((_, server) => loadOf(rounds.flatMap((turns) => turns[server] ?? [])))
    return { name, scenario, load, loads, figures: Object.fromEntries(shown) }
  })
  return { rounds: measured[0]?.rounds.length ?? 0, rows }
}

function loadOf(turns: readonly Turn[]): Load {
  const results = turns.flatMap((turn) => (isBroken(turn) ? [] : turn))
  const refused = results.reduce((sum, result) => sum + result.refused, 0)
  return {
    clients: results[0]?.clients,
    offered: results.reduce((sum, { succeeded, failed }) => sum + succeeded + failed, refused),
    refused,
    broken: turns.find(isBroken)?.broken,
  }
}

/** Divides the first server's cost by another server's: below 1 the first is cheaper. */
export function besideOther({ ratios }: Figure, other: number): Spread | undefined {
  const spread = ratios[other]
  return spread && { median: 1 / spread.median, lowest: 1 / spread.highest, highest: 1 / spread.lowest }
}

/** Lines of cells: what it is, a cell for each server, and the first one's ratio to each other one. */
export function cellsOf({ rows }: Table): string[][] {
  const lines = (of: readonly TableRow[], label: string, figure: FigureName, cell: Cell) =>
    of.map((row) => [
      `${label}${row.load}`,
      ...row.loads.map((load, server) => withBroken(cell(row, server), load)),
      ...row.loads.slice(1).map((_, index) => ratioIn(row.figures[figure], index + 1)),
    ])
  const named = (names: readonly RowName[]) => rows.filter(({ name }) => names.includes(name))
  return [
    ...lines(rows, '', 'serverMicros', cpuCell),
    ...lines(named(WITH_MEMORY), 'memory (PSS), ', 'serverMemory', memoryCell),
    ...named(COLD).map(({ load, loads }) => [
      `answered 503, ${load}`,
      ...loads.map(({ refused, offered }) => `${refused} of ${offered}`),
      ...loads.slice(1).map(() => ''),
    ]),
  ]
}

type Cell = (row: TableRow, server: number) => string | undefined

const cpuCell: Cell = ({ figures }, server) => {
  const [micros, floors] = [figures.serverMicros?.servers[server], figures.serverFloors?.servers[server]]
  return micros && `${micros.median.toFixed(0)} µs${floors ? `, ${floors.median.toFixed(1)} floors` : ''}`
}

const memoryCell: Cell = ({ figures }, server) => {
  const of = (name: FigureName) => figures[name]?.servers[server]?.median.toFixed(0)
  const parts = OF_MEMORY.slice(0, -1).flatMap((name) => of(name) ?? [])
  return of('serverMemory') && `${of('serverMemory')} MB${parts.length > 1 ? ` (${parts.join(' + ')})` : ''}`
}

function withBroken(cell: string | undefined, { broken }: Load): string {
  return [cell ?? '–', ...(broken ? [`(${broken})`] : [])].join(' ')
}

function ratioIn(figure: Figure | undefined, other: number): string {
  const spread = figure && besideOther(figure, other)
  const shown = (value: number) => value.toFixed(2)
  return spread ? `${shown(spread.median)} (${shown(spread.lowest)}–${shown(spread.highest)})` : '–'
}

export const EXPLAINED = [
  'CPU of one operation, in all processes of a server; medians of the rounds. A/B is taken within each round, with its',
  'range: below 1, A is cheaper. Memory is of service + signer + PostgreSQL, right after that load.',
]

export function renderTable(servers: readonly Subject[], table: Table): string {
  if (table.rounds === 0) return 'no whole round\n'
  const names = servers.map(({ name, note }, index) => `${letterOf(index)}  ${name}${note === '' ? '' : `: ${note}`}`)
  const letters = servers.map((_, index) => letterOf(index))
  const lines = [['', ...letters, ...letters.slice(1).map((letter) => `A/${letter}`)], ...cellsOf(table)]
  const widths = lines[0]!.map((_, column) => Math.max(...lines.map((cells) => cells[column]!.length)))
  const padded = lines.map((cells) => cells.map((cell, column) => cell.padEnd(widths[column]!)).join('  '))
  return `${[...names, '', ...EXPLAINED, '', ...padded.map((line) => line.trimEnd())].join('\n')}\n`
}
