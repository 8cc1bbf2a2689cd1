/** HTML and SVG as text: escaping, elements, tables. */

import type { Grid } from '../grid.ts'

/** Markup that may stand in a page as it is. */
export type Markup = string & { readonly markup: unique symbol }

/** Only for text that was made of escaped parts. */
export function raw(text: string): Markup {
  return text as Markup
}

export function text(value: string | number): Markup {
  return raw(String(value).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`))
}

type Attributes = Readonly<Record<string, string | number | undefined>>

export function element(name: string, attributes: Attributes, ...children: (Markup | Markup[])[]): Markup {
  const shown = Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ` ${key}="${text(value as string | number)}"`)
  return raw(`<${name}${shown.join('')}>${children.flat().join('')}</${name}>`)
}

export interface Column<Row> {
  /** Empty where the column says itself what it holds. */
  title: string
  /** Text aligns left, numbers right. */
  kind: 'text' | 'number'
  cell(row: Row): Markup
}

/** A first column of text names its row. */
export function table<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): Markup {
  const classOf = ({ kind }: Column<Row>) => (kind === 'number' ? 'number' : undefined)
  const headings = columns.map((column) =>
    column.title === ''
      ? element('td', {})
      : element('th', { scope: 'col', class: classOf(column) }, text(column.title)),
  )
  const head = element('tr', {}, headings)
  const cellOf = (column: Column<Row>, index: number, row: Row) =>
    index === 0 && column.kind === 'text'
      ? element('th', { scope: 'row' }, column.cell(row))
      : element('td', { class: classOf(column) }, column.cell(row))
  const body = rows.map((row) =>
    element(
      'tr',
      {},
      columns.map((column, index) => cellOf(column, index, row)),
    ),
  )
  return element(
    'div',
    { class: 'scroll' },
    element('table', {}, element('thead', {}, head), element('tbody', {}, body)),
  )
}

/** A column without a figure in it is text. */
export function gridTable({ columns, rows }: Grid): Markup {
  return table(
    columns.map(
      (title, index): Column<Grid['rows'][number]> => ({
        title,
        kind: index > 0 && rows.some((row) => /^[\d.,]+$/.test(row[index] ?? '')) ? 'number' : 'text',
        cell: (row) => text(row[index] ?? ''),
      }),
    ),
    rows,
  )
}
