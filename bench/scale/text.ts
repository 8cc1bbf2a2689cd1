/** What a run of `bench scale` says, as a table in Markdown, so that it can stand in a document as it is. */

import { ROLES } from '../measure/server-cpu.ts'
import type { Grid } from '../report/grid.ts'
import { BUSY_CORES, isGeneratorBusy, type Result } from '../report/result.ts'
import { letterOf, type Spread } from '../report/summary.ts'
import { generatorWarning, number, ROLE_NAMES } from '../report/text.ts'
import type { Limit, ScaleRow } from './result.ts'

const COLUMNS = [
  ...['configuration', 'certificates/s', 'p99, ms', 'CPU of a certificate, µs', '× floor', 'cores used'],
  ...['certificates/s a core', 'ratio of that', 'fullest part'],
]

const LIMIT_NAMES = {
  ...{ front: 'front thread', main: 'main thread', signer: 'signer', postgres: 'PostgreSQL process' },
  processors: 'processors',
} as const satisfies Record<Limit, string>

/** @param processors That the generators may use. */
export function renderScale(rows: readonly ScaleRow[], processors: number): string {
  const first = rows[0]?.rounds[0]?.[0]
  if (!first) return 'no whole round\n'
  const { columns, rows: grid } = scaleGrid(rows)
  return [
    settingsOf(first, rows[0]?.rounds.length ?? 0),
    SCALE_NOTE,
    '',
    line(columns),
    line(columns.map((_, index) => (index === 0 ? '---' : '---:'))),
    ...grid.map(line),
    ...troubleLines(rows, processors),
    '',
  ].join('\n')
}

export const SCALE_NOTE =
  'Medians of the rounds; ratios within each round and their range. Instances are loaded at once, with a part of the clients each.'

export function settingsOf({ challenge, clients, seconds }: Result, rounds: number): string {
  return `full flow, challenge ${challenge}, ${clients} clients: ${rounds} × ${seconds.toFixed(1)} s each, in turn`
}

export function scaleGrid(rows: readonly ScaleRow[]): Grid {
  return { columns: COLUMNS, rows: rows.map(cells) }
}

function cells(row: ScaleRow, index: number): string[] {
  const { configuration, perSecond, p99Ms, floors, cores, perCore } = row
  return [
    `${letterOf(index)}: ${configuration.name}`,
    ...[perSecond, p99Ms].map(shown),
    cpuWords(row),
    ...[floors, cores, perCore].map(shown),
    ratioWords(row),
    fullestWords(row),
  ]
}

function cpuWords({ cpu }: ScaleRow): string {
  const found = ROLES.flatMap((role) => (cpu[role] ? [`${ROLE_NAMES[role]} ${number(cpu[role].median)}`] : []))
  return found.length === 0 ? '–' : found.join(', ')
}

function ratioWords({ configuration: { comparedWith }, ratio }: ScaleRow): string {
  if (comparedWith === undefined || !ratio) return '–'
  const { median, lowest, highest } = ratio
  const range = lowest === highest ? '' : ` (${lowest.toFixed(2)}–${highest.toFixed(2)})`
  return `${median.toFixed(2)} of ${letterOf(comparedWith)}${range}`
}

function fullestWords({ fullest }: ScaleRow): string {
  return fullest ? `${LIMIT_NAMES[fullest.limit]}, ${Math.round(fullest.busy * 100)} %` : '–'
}

/** Lines. */
export function troubleLines(rows: readonly ScaleRow[], processors: number): string[] {
  return rows.flatMap(({ rounds, points }, index) => {
    const results = rounds.flat()
    const failures = results.flatMap((result) => result.failures)
    const count = failures.reduce((sum, failure) => sum + failure.count, 0)
    const busy = results.find(isGeneratorBusy)
    const together = Math.max(...points.map(({ generatorCores }) => generatorCores))
    return [
      ...(busy ? [`${letterOf(index)}: ${generatorWarning(busy)}`] : []),
      ...(!busy && together > BUSY_CORES * processors
        ? [
            `${letterOf(index)}: the generators together used ${number(together)} of ${processors} processors; they may be the limit`,
          ]
        : []),
      ...failures
        .slice(0, 1)
        .map(({ kind, example }) => `${letterOf(index)}: ${count} failed, such as ${kind}: ${example}`),
    ]
  })
}

function shown(spread: Spread | undefined): string {
  return spread ? number(spread.median) : '–'
}

function line(columns: readonly string[]): string {
  return `| ${columns.join(' | ')} |`
}
