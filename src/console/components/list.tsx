/** Lists: rows of `useList`, which load on, and what can be done with them: choose, sort, count, save, leave columns out. */

import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { countText, plural } from '../format.ts'
import { type Query, usePlace } from '../router.ts'
import type { Listed } from '../use-list.ts'
import { Empty, Problem } from './basics.tsx'
import { useColumns } from './column-choice.tsx'
import { AllRows, type CsvFile } from './csv.tsx'
import { type Filter, FilterBar } from './form.tsx'
import { Page } from './page.tsx'
import { SelectionBar, useRowSelection } from './row-selection.tsx'
import { SavedViews } from './saved-views.tsx'
import { Skeleton } from './skeleton.tsx'
import { type Column, idOf, type Sorting, Table, type TableProps } from './table.tsx'

interface ListProps<R> extends Omit<TableProps<R>, 'rows' | 'selection'> {
  list: Listed<R>
  /** What can be done to rows that are chosen; without it none can be. @param done gives the selection up */
  onChosen?: ((rows: readonly R[], done: () => void) => ComponentChildren) | undefined
  /** Offers all rows as a file. */
  csv?: CsvFile<R>
}

/** Loads on when its end comes into view. Columns should be made outside of the component. */
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
          {plural(countText(dropped), 'row')} at the top left the page to keep it fast.{' '}
          <button type="button" class="small" onClick={reload}>
            Back to the top
          </button>
        </p>
      )}
      {/* Above: who scrolls down never reaches the end of a long list. */}
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
  const by = columns.find(({ head }) => head === order?.by)?.by
  const sorted = useMemo(() => {
    if (!by || !isWhole) return rows
    const sign = order?.direction === 'descending' ? -1 : 1
    return [...rows].sort((a, b) => sign * compare(by(a), by(b)))
  }, [rows, by, order, isWhole])
  const sorting: Sorting = {
    by: order?.by ?? '',
    direction: order?.direction ?? 'ascending',
    onSort: (by, direction) => setOrder({ by, direction }),
  }
  return { rows: sorted, ...(isWhole && rows.length > 1 && { sorting }) }
}

/** What is missing comes last. */
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
  about?: string
  /** Buttons beside the title. */
  actions?: ComponentChildren
  query?: Query
  filters?: readonly Filter[]
  /** Between the title and the list. */
  children?: ComponentChildren
}

/** A page that is one list, with its filters. */
export function ListPage<R>({
  title,
  about,
  actions,
  query = {},
  filters,
  children,
  empty,
  ...list
}: ListPageProps<R>) {
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
