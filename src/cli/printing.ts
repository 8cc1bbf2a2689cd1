/** Prints results on a terminal: lists as tables, one object as indented lines, or all as JSON. */

import { printable } from '../shared/lib/terminal.ts'
import { type Report as Progress, sparingly } from '../store/schema/waiting.ts'

type Row = Readonly<Record<string, unknown>>

/** The columns of a list that names none. */
const MOST_COLUMNS = 6

export function printRows(rows: readonly Row[], columns: readonly string[] | undefined): void {
  const names = columns ?? Object.keys(rows[0] ?? {}).slice(0, MOST_COLUMNS)
  if (rows.length === 0) console.error('none')
  else console.log(table([names, ...rows.map((row) => names.map((name) => cell(row[name])))]))
}

/** Pads all columns but the last, so that long lists of names get no trailing spaces. */
function table(lines: readonly (readonly string[])[]): string {
  const widths = (lines[0] ?? []).map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)))
  return lines
    .map((line) => line.map((text, i) => (i === line.length - 1 ? text : text.padEnd(widths[i] ?? 0))).join('  '))
    .join('\n')
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (Array.isArray(value) && value.every((one) => typeof one !== 'object' || 'value' in (one ?? {})))
    return value.map((one) => cell(one?.value ?? one)).join(',') || '-'
  return oneLine(printable(typeof value === 'object' ? JSON.stringify(value) : String(value)))
}

/** @param body null where there is nothing, undefined where there is nothing to say */
export function printReply(body: unknown): void {
  if (body === null || body === undefined) console.error(body === null ? 'none' : 'done')
  else if (typeof body === 'string') console.log(body.replace(/\n$/, ''))
  else console.log(renderText(body as Report))
}

/** Prints the result of a command: `facts` with `--json`, else lines for a reader. */
export function tell(json: boolean, facts: unknown, ...lines: readonly string[]): void {
  if (json) console.log(JSON.stringify(facts, null, 2))
  else for (const line of lines) console.log(line)
}

/** The members in the order of printing. */
export type Report = { [name: string]: Value }
type Value = string | number | boolean | null | undefined | Report | readonly Value[]

/** A line break in a client's text would look like a member of ours. */
const oneLine = (value: unknown): string => String(value).replaceAll(/[\n\t]/g, ' ')

/** Lines `name  value`; members of lists and objects are indented below their name, absent ones are left out. */
export function renderText(report: Report, indent = ''): string {
  const members = Object.entries(report).filter(([, value]) => value !== null && value !== undefined)
  const width = Math.max(...members.map(([name]) => name.length))
  return members.map(([name, value]) => `${indent}${renderMember(name, value, width, indent)}`).join('\n')
}

function renderMember(name: string, value: Value, width: number, indent: string): string {
  const label = name.replaceAll('_', ' ')
  if (Array.isArray(value)) {
    const items = value.map((item) =>
      isStep(item)
        ? `${indent}  - ${renderStep(item)}`
        : isReport(item)
          ? `${indent}  - ${renderText(item, `${indent}    `).trimStart()}`
          : `${indent}  - ${oneLine(item)}`,
    )
    return [`${label}${items.length === 0 ? ' none'.padStart(width - label.length + 6) : ''}`, ...items].join('\n')
  }
  if (isReport(value))
    return Object.keys(value).length === 0
      ? `${label.padEnd(width)}  none`
      : `${label}\n${renderText(value, `${indent}  `)}`
  return `${label.padEnd(width)}  ${oneLine(value)}`
}

/** A step of a validation attempt on one line, because an attempt has a dozen steps. */
function renderStep({ step, ...facts }: Report): string {
  const text = (value: Value) =>
    isReport(value) ? JSON.stringify(value) : Array.isArray(value) ? value.map(String).join(', ') || 'none' : value
  const told = Object.entries(facts).map(([name, value]) => `${name} ${text(value)}`)
  return oneLine([step, ...told].join('; '))
}

function isStep(value: Value): value is Report {
  return isReport(value) && 'step' in value
}

function isReport(value: Value): value is Report {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

interface Output {
  isTTY?: boolean
  columns?: number
  write(text: string): unknown
}

/** Shows progress on standard error: on a terminal in one line that changes, elsewhere line by line. */
export function showProgress(out: Output = process.stderr): Progress {
  if (!out.isTTY) return sparingly((sentence) => out.write(`${sentence}\n`))
  const clear = '\r\u001b[K'
  return (sentence, isPassing) =>
    out.write(isPassing ? `${clear}${sentence.slice(0, (out.columns ?? 80) - 1)}` : `${clear}${sentence}\n`)
}
