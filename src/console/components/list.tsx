/** Lists of `useList`, whose rows can be chosen, sorted, counted and saved, and whose columns can be left out; and pages that are one list. */

import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { can, type Input, type OperationId } from '../api.ts'
import { counted, countText } from '../format.ts'
import { withWholeDays } from '../preferences.ts'
import { type PageProps, type Query, usePlace } from '../router.ts'
import { type Listed, type Row, useList } from '../use-api.ts'
import { Button, Empty, Problem, Skeleton } from './basics.tsx'
import { type Column, orderOf } from './columns.tsx'
import { AllRows, type CsvFile } from './csv.tsx'
import { FilterBar, SavedViews, type ShownFilters } from './filters.tsx'
import { CheckField } from './form.tsx'
import { Page } from './page.tsx'
import { idOf, SelectionBar, type Sorting, Table, type TableProps, useRowSelection } from './table.tsx'

interface ListProps<R> extends Omit<TableProps<R>, 'rows' | 'selection'> {
  list: Listed<R>
  /** The actions on rows that are chosen; without it no row can be. @param done gives the selection up */
  onChosen?: ((rows: readonly R[], done: () => void) => ComponentChildren) | undefined
  /** Offers all rows as a file. */
  csv?: CsvFile<R> | undefined
}

/** The list loads more rows when its end comes into view. Columns should be made outside of the component. */
export function List<R>({ list, empty, csv, onChosen, ...table }: ListProps<R>) {
  const { rows, error, isLoading, hasMore, isCut, dropped, unknown, more, reload, all } = list
  const { selection, chosenRows, clear } = useRowSelection(rows, table.rowKey ?? idOf)
  const { shown, choice } = useColumns(table.caption, table.columns)
  const isWhole = !hasMore && !isLoading && dropped === 0
  const local = useLocalOrder(rows, table.columns, isWhole)
  return (
    <>
      {unknown.length > 0 && (
        <p class="bar warn">This page does not know the filter {unknown.join(', ')} of its address: it was left out.</p>
      )}
      {dropped > 0 && (
        <p class="quiet">
          {counted(dropped, 'row')} at the top left the page to keep it fast.{' '}
          <Button kind="small" text="Back to the top" onClick={reload} />
        </p>
      )}
      {/* Above the table: nobody reaches the end of a long list by scrolling. */}
      {rows.length > 0 && (
        <div class="tools">
          <AllRows all={all} csv={csv} shown={isWhole ? rows : undefined} />
          {table.columns.length > 3 && choice}
        </div>
      )}
      {onChosen && chosenRows.length > 0 && (
        <SelectionBar count={chosenRows.length} clear={clear}>
          {onChosen(chosenRows, clear)}
        </SelectionBar>
      )}
      <Table
        {...local}
        {...table}
        columns={shown}
        rows={local.rows}
        {...(onChosen && { selection })}
        {...(isLoading || error !== undefined ? {} : { empty: isCut ? SEARCHING : empty })}
      />
      <Problem error={error} retry={rows.length > 0 ? more : reload} />
      {rows.length > 0 && (
        <p class="quiet foot" role="status">
          {isLoading
            ? 'Loading …'
            : isCut
              ? `${countText(rows.length)} shown; the search stopped after 2 seconds. Narrow it, or continue.`
              : foot(rows.length, hasMore)}
        </p>
      )}
      {rows.length === 0 && isLoading && <Skeleton rows={8} />}
      {hasMore && !isLoading && error === undefined && <More more={more} />}
    </>
  )
}

/** Sorts the rows of a list that is whole by the columns that say how; a part of a list would be sorted wrongly. */
function useLocalOrder<R>(rows: readonly R[], columns: readonly Column<R>[], isWhole: boolean) {
  const [order, setOrder] = useState<Pick<Sorting, 'by' | 'direction'>>()
  const ordering = columns.find(({ head }) => head === order?.by)
  const by = ordering && orderOf(ordering)
  const sorted = useMemo(() => {
    if (!by || !isWhole) return rows
    const sign = order?.direction === 'descending' ? -1 : 1
    return [...rows].sort((a, b) => sign * compare(by(a), by(b)))
  }, [rows, ordering, order, isWhole])
  const sorting: Sorting = {
    by: order?.by ?? '',
    direction: order?.direction ?? 'ascending',
    onSort: (by, direction) => setOrder({ by, direction }),
  }
  return { rows: sorted, ...(isWhole && rows.length > 1 && { sorting }) }
}

/** A missing value comes last. */
function compare(a: string | number | null, b: string | number | null): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null)
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en')
}

/** The service cut the search off before it found a row. */
const SEARCHING = (
  <p class="quiet">The search stopped after 2 seconds and has found nothing so far. Narrow it, or continue.</p>
)

const foot = (shown: number, hasMore: boolean) =>
  hasMore ? `${countText(shown)} shown, there are more` : `${countText(shown)} shown`

interface ListPageProps<R> extends Omit<ListProps<R>, 'caption'> {
  title: string
  /** One sentence below the title. */
  about?: string | undefined
  /** Buttons beside the title. */
  actions?: ComponentChildren
  query?: Query
  filters?: ShownFilters | undefined
  /** Between the title and the list. */
  children?: ComponentChildren
}

/** A page that is one list, with its filters. */
export function ListPage<R>({ title, about, actions, query = {}, filters, children, ...props }: ListPageProps<R>) {
  const { empty, ...list } = props
  const isFiltered = Object.values(query).some((value) => value !== '')
  const { path } = usePlace()
  return (
    <Page title={title} actions={actions}>
      {about !== undefined && <p class="quiet">{about}</p>}
      {children}
      {filters && <SavedViews path={path} query={query} />}
      {filters && <FilterBar query={query} filters={filters} />}
      <List caption={title} empty={isFiltered ? <Empty title="No matches" /> : empty} {...list} />
    </Page>
  )
}

/** The description of a page that is one list; `listPage` draws it. */
interface ListDescriptor<I extends OperationId> {
  title: string
  about?: string
  /** The filters of the operation that are offered. Without them the address has none. */
  filters?: ShownFilters
  /** A function gets what reads the list again, for columns with buttons. */
  columns: readonly Column<Row<I>>[] | ((reload: () => void, query: Query) => readonly Column<Row<I>>[])
  csv?: CsvFile<Row<I>>
  rowKey?: (row: Row<I>) => string | number
  empty?: ComponentChildren | ((reload: () => void) => ComponentChildren)
  actions?: (reload: () => void) => ComponentChildren
  /** The actions on rows that are chosen, for roles that may call the operation. @param done reads the list again */
  chosen?: {
    needs: OperationId
    actions: (rows: readonly Row<I>[], done: () => void, query: Query) => ComponentChildren
  }
  /** Between the title and the list. */
  above?: (reload: () => void) => ComponentChildren
}

export const listPage = <I extends OperationId>(operation: I, page: ListDescriptor<I>) =>
  function PageOfList({ query, entry }: PageProps) {
    const { title, about, filters, columns, csv, rowKey, empty, actions, chosen, above } = page
    const asked = filters ? { query: withWholeDays(query) } : {}
    const list = useList(operation, asked as Input<I>, entry)
    const { reload } = list
    const drawn = useMemo(() => (typeof columns === 'function' ? columns(reload, query) : columns), [reload, query])
    const onChosen = (rows: readonly Row<I>[], giveUp: () => void) =>
      chosen?.actions(
        rows,
        () => {
          giveUp()
          reload()
        },
        query,
      )
    return (
      <ListPage<Row<I>>
        {...{ title, about, filters, list }}
        {...(filters && { query })}
        {...(csv && { csv })}
        {...(rowKey && { rowKey })}
        columns={drawn}
        actions={actions?.(reload)}
        onChosen={chosen && can(chosen.needs) ? onChosen : undefined}
        empty={typeof empty === 'function' ? empty(reload) : empty}
      >
        {above?.(reload)}
      </ListPage>
    )
  }

const keyOfColumns = (list: string) => `chancery.columns.${list}`

/** @returns the heads of the columns that are left out */
function storedHeads(list: string): readonly string[] {
  const kept = localStorage.getItem(keyOfColumns(list))
  return kept === null ? [] : kept.split('\n')
}

/** Lets the user choose columns, which this browser keeps. The first column names the row, and stays. @param list its name */
function useColumns<R>(list: string, columns: readonly Column<R>[]) {
  const [hidden, setHidden] = useState(() => storedHeads(list))
  const [isOpen, setOpen] = useState(false)
  const show = (head: string, isShown: boolean) => {
    const after = isShown ? hidden.filter((one) => one !== head) : [...hidden, head]
    if (after.length === 0) localStorage.removeItem(keyOfColumns(list))
    else localStorage.setItem(keyOfColumns(list), after.join('\n'))
    setHidden(after)
  }
  const isShown = ({ head }: Column<R>) => !hidden.includes(head)
  const choice = (
    <details class="choice" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Columns</summary>
      <div>
        {isOpen &&
          columns
            .slice(1)
            .map((column) => (
              <CheckField
                key={column.head}
                label={column.head}
                checked={isShown(column)}
                onChange={(checked) => show(column.head, checked)}
              />
            ))}
      </div>
    </details>
  )
  return {
    shown: hidden.length === 0 ? columns : columns.filter((column, index) => index === 0 || isShown(column)),
    choice,
  }
}

function More({ more }: { more: () => void }) {
  const button = useRef<HTMLButtonElement>(null)
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) more()
      },
      { rootMargin: '600px' },
    )
    if (button.current) observer.observe(button.current)
    return () => observer.disconnect()
  }, [more])
  return (
    <button type="button" ref={button} onClick={more}>
      Load more
    </button>
  )
}
