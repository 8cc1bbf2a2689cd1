/** The parts of a request, one by one, as tables: for the terminal and the report. */

import type { CryptoCosts } from '../measure/crypto-floor.ts'
import type { Grid } from '../report/grid.ts'
import type { MicroFigures, MicroResult } from './micro.ts'

export const COLUMNS = ['batch', 'here', 'asked', 'in all', 'verifies']

export function microGrid({ floor, results }: MicroFigures): Grid {
  return {
    columns: ['CPU, µs', ...COLUMNS],
    rows: results.map((result) => [result.name, ...cells(result, floor, undefined)]),
  }
}

export function floorLine({ jwsVerification, csrVerification, signature }: CryptoCosts): string {
  return (
    `crypto floor, µs: ${jwsVerification.toFixed(1)} a verification ("verifies" counts in these), ` +
    `${csrVerification.toFixed(1)} of a CSR, ${signature.toFixed(1)} a signature`
  )
}

export function cells(result: MicroResult, costs: CryptoCosts, baseline: MicroFigures | undefined): string[] {
  const floors = inFloors(result, costs)
  const earlier = baseline?.results.find(({ name, batch }) => name === result.name && batch === result.batch)
  const ratio = earlier && baseline ? floors / inFloors(earlier, baseline.floor) : undefined
  return [
    result.batch === undefined ? '' : String(result.batch),
    micros(result.own),
    result.other === undefined ? '' : micros(result.other),
    micros(totalOf(result)),
    floors.toFixed(3),
    ...(baseline ? [ratio === undefined ? '' : ratio.toFixed(2)] : []),
  ]
}

function totalOf({ own, other = 0 }: MicroResult): number {
  return own + other
}

/** Clocks and neighbours change microseconds; the ratio to a verification of the same minute stays comparable. */
function inFloors(result: MicroResult, { jwsVerification }: CryptoCosts): number {
  return totalOf(result) / jwsVerification
}

function micros(value: number): string {
  return value.toFixed(value < 100 ? 2 : 0)
}

export function row(name: string, columns: readonly string[]): string {
  return `${name.padEnd(22)}${columns.map((column) => column.padStart(10)).join('')}`
}
