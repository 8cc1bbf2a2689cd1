/** `Table`: rows that are there, under heads that may sort; rows can be chosen. */

import { Component, type ComponentChildren, type ComponentType, h } from 'preact'
import { useCallback, useMemo, useState } from 'preact/hooks'
import { counted } from '../format.ts'
import { Button } from './basics.tsx'
import { type Column, drawnBy, layoutOf, orderOf } from './columns.tsx'
import { Section } from './page.tsx'

export interface Sorting {
  by: string
  direction: 'ascending' | 'descending'
  onSort: (by: string, direction: 'ascending' | 'descending') => void
}

export interface TableProps<R> {
  /** Says what the table holds, to screen readers alone unless `showCaption` is set. */
  caption: string
  showCaption?: boolean
  columns: readonly Column<R>[]
  rows: readonly R[]
  /** The id of the row, unless it says otherwise. */
  rowKey?: (row: R) => string | number
  sorting?: Sorting
  /** Adds a column of check boxes. */
  selection?: RowSelection
  /** It stands in the place of a table without rows. */
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
  const { head, sort: ofService } = column
  const layout = layoutOf(column)
  const sort = ofService ?? (orderOf(column) && head)
  if (sort === undefined || !sorting)
    return (
      <th scope="col" class={layout}>
        {head}
      </th>
    )
  const isSorted = sorting.by === sort
  const first = ofService === undefined ? 'ascending' : 'descending'
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

/** A row is not drawn again while its data are the same: there may be two thousand others. */
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

type Key = string | number

interface RowSelection {
  chosen: ReadonlySet<Key>
  choose(keys: readonly Key[], isChosen: boolean): void
}

/** @param rows that are shown; a row that has left the page is no longer chosen */
export function useRowSelection<R>(rows: readonly R[], rowKey: (row: R) => Key) {
  const [marked, setMarked] = useState<ReadonlySet<Key>>(new Set())
  const chosenRows = useMemo(() => rows.filter((row) => marked.has(rowKey(row))), [rows, marked, rowKey])
  // One function for good, so that no row is drawn again for it.
  const choose = useCallback((keys: readonly Key[], isChosen: boolean) => {
    setMarked((before) => {
      const after = new Set(before)
      for (const key of keys) isChosen ? after.add(key) : after.delete(key)
      return after
    })
  }, [])
  const selection: RowSelection = { chosen: new Set(chosenRows.map(rowKey)), choose }
  return { selection, chosenRows, clear: () => setMarked(new Set()) }
}

/** Says how many rows are chosen, above the table and in view while it scrolls. */
export const SelectionBar = (props: { count: number; clear: () => void; children: ComponentChildren }) => (
  <section class="bar selection" aria-label="Selected rows">
    <p role="status">{counted(props.count, 'row')} selected</p>
    {props.children}
    <Button kind="small" text="Clear selection" onClick={props.clear} />
  </section>
)

/** The head of the column: all rows that are shown, or none. */
function ChooseAll({ keys, selection }: { keys: readonly Key[]; selection: RowSelection }) {
  const chosen = keys.filter((key) => selection.chosen.has(key)).length
  const isAll = keys.length > 0 && chosen === keys.length
  return (
    <th scope="col" class="choose">
      <input
        type="checkbox"
        aria-label="Select all rows that are shown"
        disabled={keys.length === 0}
        checked={isAll}
        // There is no attribute for it.
        ref={(box) => {
          if (box) box.indeterminate = chosen > 0 && !isAll
        }}
        onChange={() => selection.choose(keys, !isAll)}
      />
    </th>
  )
}
