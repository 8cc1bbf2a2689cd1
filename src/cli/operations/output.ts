/** Replies of the Admin API on a terminal: lists as tables, objects as lines, or all as JSON. */

import { printable } from '../../shared/lib/terminal.ts'
import { type Report, renderText } from '../report-text.ts'
import { tableOf } from '../table.ts'

type Row = Readonly<Record<string, unknown>>

/** Of a list without columns of its own. */
const MOST_COLUMNS = 6

function cell(value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (Array.isArray(value) && value.every((one) => typeof one !== 'object')) return value.map(cell).join(',') || '-'
  return printable(typeof value === 'object' ? JSON.stringify(value) : String(value)).replaceAll(/[\n\t]/g, ' ')
}

export function printRows(rows: readonly Row[], columns: readonly string[] | undefined): void {
  const names = columns ?? Object.keys(rows[0] ?? {}).slice(0, MOST_COLUMNS)
  if (rows.length === 0) console.error('none')
  else console.log(tableOf<Row>(names, (row) => names.map((name) => cell(row[name])))(rows))
}

/** @param body null where there is nothing, undefined where there is nothing to say */
export function printReply(body: unknown): void {
  if (body === null || body === undefined) console.error(body === null ? 'none' : 'done')
  else if (typeof body === 'string') console.log(body.replace(/\n$/, ''))
  else console.log(renderText(body as Report))
}
