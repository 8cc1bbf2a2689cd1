/** The signer alone, as tables: for the terminal and the report. */

import type { Grid } from '../report/grid.ts'
import type { SignerFigures } from './measure.ts'
import type { BenchKeyType } from './place.ts'

/** One key, measured. */
export interface SignerRow extends SignerFigures {
  type: BenchKeyType
  /** With a token; 0 is a key file. */
  sessions: number
  /** For people: what could not go faster. */
  limitedBy: string
}

export const COLUMNS = [
  ...['key', 'per second', 'p50 ms', 'p99 ms', 'signer µs', 'main %', 'others %', 'client µs', 'machine %'],
  'limited by',
]

export function signerGrid(rows: readonly SignerRow[]): Grid {
  return { columns: COLUMNS, rows: rows.map(cells) }
}

export function nameOfKey({ type, sessions }: Pick<SignerRow, 'type' | 'sessions'>): string {
  if (sessions === 0) return `${type}, file`
  return `${type}, token, ${sessions} session${sessions > 1 ? 's' : ''}`
}

export function cells(row: SignerRow): string[] {
  const { perSecond, p50Ms, p99Ms, signerMicros, mainThread, otherThreads, clientMicros, machine, limitedBy } = row
  const whole = (value: number) => Math.round(value).toLocaleString('en')
  return [
    nameOfKey(row),
    ...[whole(perSecond), p50Ms.toFixed(2), p99Ms.toFixed(2), whole(signerMicros), whole(100 * mainThread)],
    ...[whole(100 * otherThreads), whole(clientMicros), whole(100 * machine), limitedBy],
  ]
}

export function line(columns: readonly string[]): string {
  const [name = '', ...figures] = columns
  const last = figures.pop()
  return `${name.padEnd(30)}${figures.map((figure) => figure.padStart(11)).join('')}   ${last}`
}
