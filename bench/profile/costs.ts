/** Puts the captures of a server's threads together: what an operation costs, by part and by place; pure. */

import { addTo, type Shares } from './attribute.ts'
import type { LoopDelay, ThreadCapture } from './capture.ts'
import { OTHER } from './parts.ts'

export const PLACES = ['fronts', 'main', 'validation', 'signer'] as const
export type Place = (typeof PLACES)[number]

/** One row of a table, in the unit of the table for one operation. */
export interface CostRow {
  name: string
  places: Record<Place, number>
  total: number
}

export interface LoopDelayRow extends LoopDelay {
  thread: string
}

type Captured = Pick<ThreadCapture<unknown>, 'pid' | 'title' | 'url'>

/** Threads that are neither a front nor the main thread are those of the validation pools. */
export function placeOfThread({ pid, title }: Captured, servicePid: number): Place {
  if (pid !== servicePid) return 'signer'
  if (title === '') return 'main'
  return /\bfront-\d+$/.test(title) ? 'fronts' : 'validation'
}

/** The same thread in different captures of one server. */
export function threadKey({ pid, title }: Captured): string {
  return `${pid} ${title}`
}

export interface Measured {
  place: Place
  shares: Shares
  /** What all shares of this thread amount to, for one operation. */
  amount: number
}

/** Largest first; what no rule knows comes last. */
export function rowsByPart(threads: readonly Measured[]): CostRow[] {
  const rows = new Map<string, CostRow>()
  for (const { place, shares, amount } of threads) {
    for (const [part, weight] of shares.parts) {
      const row = rows.get(part) ?? emptyRow(part)
      rows.set(part, row)
      const cost = (amount * weight) / shares.total
      row.places[place] += cost
      row.total += cost
    }
  }
  const isOther = (row: CostRow) => (row.name === OTHER ? 1 : 0)
  return [...rows.values()].sort((a, b) => isOther(a) - isOther(b) || b.total - a.total)
}

/** Functions with what they cost an operation over all threads, largest first. */
export function topFunctions(
  threads: readonly Measured[],
  which: 'functions' | 'otherFunctions',
  count: number,
): [name: string, cost: number][] {
  const sums = new Map<string, number>()
  for (const { shares, amount } of threads) {
    for (const [name, weight] of shares[which]) addTo(sums, name, (amount * weight) / shares.total)
  }
  return [...sums].sort(([, a], [, b]) => b - a).slice(0, count)
}

function emptyRow(name: string): CostRow {
  return { name, places: { fronts: 0, main: 0, validation: 0, signer: 0 }, total: 0 }
}

export function sumOf(rows: readonly CostRow[], name: string): CostRow {
  const sum = emptyRow(name)
  for (const { places, total } of rows) {
    for (const place of PLACES) sum.places[place] += places[place]
    sum.total += total
  }
  return sum
}
