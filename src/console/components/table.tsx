/** `Table`: rows that are there, under heads that may sort. */

import { Component, type ComponentChildren, type ComponentType, h } from 'preact'
import { Time } from './basics.tsx'
import { type Column, drawnBy, layoutOf, orderOf } from './columns.tsx'
import { Section } from './page.tsx'
import { ChooseAll, type RowSelection } from './row-selection.tsx'

export type { Column } from './columns.tsx'
export const timeColumn = <M extends string>(
  head: string,
  member: M,
  { relative = true }: { relative?: boolean } = {},
): Column<Readonly<Record<M, string | null>>> => ({
  head,
  kind: 'fixed',
  by: (row) => row[member],
  cell: (row) => <Time at={row[member]} relative={relative} />,
})

export interface Sorting {
  by: string
  direction: 'ascending' | 'descending'
  onSort: (by: string, direction: 'ascending' | 'descending') => void
}

export interface TableProps<R> {
  /** Says what the table holds; screen readers only, unless `showCaption`. */
  caption: string
  showCaption?: boolean
  columns: readonly Column<R>[]
  rows: readonly R[]
  /** The id of the row, unless it says otherwise. */
  rowKey?: (row: R) => string | number
  sorting?: Sorting
  /** Adds a column of check boxes. */
  selection?: RowSelection
  /** Shown instead of a table without rows. */
  empty?: ComponentChildren
}

export const idOf = (row: unknown) => String((row as { id?: unknown }).id)

export function Table<R>({ caption, showCaption, columns, rows, rowKey = idOf, ...props }: TableProps<R>) {
  const { sorting, selection, empty } = props
  if (rows.length === 0 && empty !== undefined) return <>{empty}</>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by keyboard
    <section class="table" aria-label={caption} tabIndex={0}>
      <table>
        <caption class={showCaption ? '' : 'hidden'}>{caption}</caption>
        <thead>
          <tr>
            {selection && <ChooseAll keys={rows.map(rowKey)} selection={selection} />}
            {columns.map((column) => (
              <Head key={column.head} column={column} sorting={sorting} />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row
              key={rowKey(row)}
              row={row}
              rowId={rowKey(row)}
              columns={columns as readonly Column<never>[] as readonly Column<unknown>[]}
              choose={selection?.choose}
              isChosen={selection?.chosen.has(rowKey(row)) ?? false}
            />
          ))}
        </tbody>
      </table>
    </section>
  )
}

/** A table under its caption as a heading. */
export const TableSection = <R,>(table: TableProps<R>) => (
  <Section title={table.caption}>
    <Table {...table} />
  </Section>
)

function Head<R>({ column, sorting }: { column: Column<R>; sorting: Sorting | undefined }) {
  const { head } = column
  const layout = layoutOf(column)
  const order = orderOf(column)
  const sort = column.sort ?? (order && head)
  if (sort === undefined || !sorting)
    return (
      <th scope="col" class={layout}>
        {head}
      </th>
    )
  const isSorted = sorting.by === sort
  const first = order ? 'ascending' : 'descending'
  const other = isSorted && sorting.direction === first ? opposite(first) : first
  return (
    <th scope="col" class={layout} aria-sort={isSorted ? sorting.direction : 'none'}>
      <button type="button" class="sort" onClick={() => sorting.onSort(sort, other)}>
        {head}
      </button>
    </th>
  )
}

const opposite = (direction: Sorting['direction']) => (direction === 'ascending' ? 'descending' : 'ascending')

interface RowProps {
  row: unknown
  rowId: string | number
  columns: readonly Column<unknown>[]
  choose: RowSelection['choose'] | undefined
  isChosen: boolean
}

/** Not drawn again while its row is the same: two thousand others may be. */
const Row = memo(({ row, rowId, columns, choose, isChosen }: RowProps) => (
  <tr class={isChosen ? 'chosen' : undefined}>
    {choose && (
      <td class="choose">
        <input
          type="checkbox"
          aria-label="Select this row"
          checked={isChosen}
          onChange={() => choose([rowId], !isChosen)}
        />
      </td>
    )}
    {columns.map((column, index) =>
      index === 0 ? (
        <th key={column.head} scope="row" class={layoutOf(column)}>
          {drawnBy(column, row)}
        </th>
      ) : (
        <td key={column.head} class={layoutOf(column)} data-head={column.head}>
          {drawnBy(column, row)}
        </td>
      ),
    )}
  </tr>
))

function memo<P extends object>(draw: (props: P) => ComponentChildren): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const former = this.props as Record<string, unknown>
      return Object.entries(next).some(([name, value]) => former[name] !== value)
    }

    override render() {
      return h(draw as ComponentType<P>, this.props as P & { children?: never })
    }
  }
}
