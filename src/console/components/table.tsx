/** Tables: `Table` for rows that are there, `List` for rows of `useList`, which loads on and can be saved as a file. */

import { Component, type ComponentChildren, type ComponentType, h } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { Listed } from '../api.ts'
import { countText, csvOf, plural } from '../format.ts'
import type { Query } from '../router.ts'
import { Empty, Problem } from './basics.tsx'
import { type Filter, FilterBar } from './form.tsx'
import { Page } from './page.tsx'
import { ChooseAll, type RowSelection, SelectionBar, useRowSelection } from './row-selection.tsx'
import { Skeleton } from './skeleton.tsx'

export interface Column<R> {
  head: string
  cell: (row: R) => ComponentChildren
  /** Passed to `onSort`; without it the column cannot be sorted. */
  sort?: string
  /** `number` is aligned to the right, `wide` takes what is left, `word` breaks no word, `fixed` no line. */
  kind?: 'number' | 'wide' | 'word' | 'fixed'
}

interface Sorting {
  by: string
  direction: 'ascending' | 'descending'
  onSort: (by: string, direction: 'ascending' | 'descending') => void
}

interface TableProps<R> {
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

const idOf = (row: unknown) => String((row as { id?: unknown }).id)

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
              <Head key={column.head} {...column} sorting={sorting} />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row
              key={rowKey(row)}
              row={row}
              rowId={rowKey(row)}
              columns={columns as readonly Column<unknown>[]}
              choose={selection?.choose}
              isChosen={selection?.chosen.has(rowKey(row)) ?? false}
            />
          ))}
        </tbody>
      </table>
    </section>
  )
}

function Head<R>({ head, sort, kind, sorting }: Column<R> & { sorting: Sorting | undefined }) {
  if (sort === undefined || !sorting)
    return (
      <th scope="col" class={kind}>
        {head}
      </th>
    )
  const isSorted = sorting.by === sort
  const other = isSorted && sorting.direction === 'descending' ? 'ascending' : 'descending'
  return (
    <th scope="col" class={kind} aria-sort={isSorted ? sorting.direction : 'none'}>
      <button type="button" class="sort" onClick={() => sorting.onSort(sort, other)}>
        {head}
      </button>
    </th>
  )
}

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
    {columns.map(({ head, cell, kind }, index) =>
      index === 0 ? (
        <th key={head} scope="row" class={kind}>
          {cell(row)}
        </th>
      ) : (
        <td key={head} class={kind} data-head={head}>
          {cell(row)}
        </td>
      ),
    )}
  </tr>
))

interface ListProps<R> extends Omit<TableProps<R>, 'rows' | 'selection'> {
  list: Listed<R>
  /** What can be done to rows that are chosen; without it none can be. @param done gives the selection up */
  onChosen?: (rows: readonly R[], done: () => void) => ComponentChildren
  /** Offers the rows that are shown as a file. */
  csv?: CsvFile<R>
}

/** Loads on when its end comes into view. Columns should be made outside of the component. */
export function List<R>({ list, empty, csv, onChosen, ...table }: ListProps<R>) {
  const { rows, error, isLoading, hasMore, isCut, dropped, more, reload } = list
  const { selection, chosenRows, clear } = useRowSelection(rows, table.rowKey ?? idOf)
  return (
    <>
      {dropped > 0 && (
        <p class="quiet">
          {plural(countText(dropped), 'row')} at the top left the page to keep it fast.{' '}
          <button type="button" class="small" onClick={reload}>
            Back to the top
          </button>
        </p>
      )}
      {/* Above: who scrolls down never reaches the end of a long list. */}
      {csv && rows.length > 0 && <SaveAsCsv rows={rows} {...csv} />}
      {onChosen && chosenRows.length > 0 && (
        <SelectionBar count={chosenRows.length} clear={clear}>
          {onChosen(chosenRows, clear)}
        </SelectionBar>
      )}
      <Table
        {...table}
        rows={rows}
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
  return (
    <Page title={title} actions={actions}>
      {about !== undefined && <p class="quiet">{about}</p>}
      {children}
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

export interface CsvFile<R> {
  name: string
  members: readonly (keyof R & string)[]
}

const SaveAsCsv = <R,>({ rows, name, members }: CsvFile<R> & { rows: readonly R[] }) => (
  <div class="actions">
    <button
      type="button"
      class="small"
      onClick={() =>
        saveFile(name, 'text/csv', csvOf([members, ...rows.map((row) => members.map((member) => cellOf(row[member])))]))
      }
    >
      Save as CSV
    </button>
  </div>
)

function cellOf(value: unknown): string {
  if (Array.isArray(value)) return value.map((one) => cellOf((one as { value?: unknown }).value ?? one)).join(' ')
  if (value === null || value === undefined) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** Gives a file to the person at the browser. */
export function saveFile(name: string, type: string, content: string | Uint8Array<ArrayBuffer>): void {
  const url = URL.createObjectURL(new Blob([content], { type }))
  const link = document.createElement('a')
  Object.assign(link, { href: url, download: name })
  link.click()
  // The download has begun by then.
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
