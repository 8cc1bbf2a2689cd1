/** Ledgers as Markdown tables, and the dearest functions as lines. */

import { CATEGORIES, type Category, REQUESTS, type Request } from './categories.ts'
import { type Ledger, requestMicros, sumOf, THREADS, type Thread } from './ledger.ts'

const shown = (micros: number) => (micros >= 0.5 ? Math.round(micros).toLocaleString('en') : '')

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(head), `|${head.map((_, index) => (index === 0 ? '---' : '---:')).join('|')}|`, ...rows.map(line)].join(
    '\n',
  )
}

const keysOf = <K extends string>(all: Record<K, unknown>) => Object.keys(all) as K[]
const hasFigure = ([, ...cells]: readonly string[]) => cells.some((cell) => cell !== '')

/** Microseconds of one operation: a column a ledger, a row a category, then threads, sum and floor. */
export function ledgerTable(ledgers: readonly Ledger[]): string {
  const row = (name: string, of: (ledger: Ledger) => number) => [name, ...ledgers.map((one) => shown(of(one)))]
  const byCategory = keysOf(CATEGORIES).map((category: Category) =>
    row(CATEGORIES[category], ({ entries }) => sumOf(entries, { category })),
  )
  const byThread = keysOf(THREADS).map((thread: Thread) =>
    row(`of it in ${THREADS[thread]}`, ({ entries }) => sumOf(entries, { thread })),
  )
  return table(
    ['microseconds', ...ledgers.map(({ title }) => title)],
    [
      ...byCategory.filter(hasFigure),
      row('**in all**', ({ entries }) => sumOf(entries)),
      row('crypto floor', ({ floorMicros = 0 }) => floorMicros),
      ...byThread.filter(hasFigure),
    ],
  )
}

/** One flow by its requests. */
export function requestTable({ entries }: Ledger): string {
  const rows = keysOf(REQUESTS).map((request: Request) => {
    const { own, shared } = requestMicros(entries, request)
    const dearest = keysOf(CATEGORIES)
      .map((category) => ({ category, micros: sumOf(entries, { request, category }) / REQUESTS[request] }))
      .toSorted((a, b) => b.micros - a.micros)
      .slice(0, 4)
      .filter(({ micros }) => micros >= 5)
      .map(({ category, micros }) => `${CATEGORIES[category]} ${shown(micros)}`)
    const times = REQUESTS[request] === 1 ? '' : `, each of ${REQUESTS[request]}`
    return [`${request}${times}`, shown(own), shown(shared), shown(own + shared), dearest.join('; ')]
  })
  return table(['request', 'its own', 'of all alike', 'together', 'dearest of its own'], rows)
}

export function functionLines({ title, functions }: Ledger, count: number): string[] {
  return keysOf(THREADS).flatMap((thread) => {
    const own = functions.filter((one) => one.thread === thread).slice(0, count)
    if (own.length === 0) return []
    return [
      `${title}: ${THREADS[thread]}`,
      ...own.map(({ name, micros }) => `${micros.toFixed(1).padStart(8)}  ${name}`),
      '',
    ]
  })
}
