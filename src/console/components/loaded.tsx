/** What one reply fills: a page, or a section with a table. */

import type { ComponentChildren } from 'preact'
import type { Loaded } from '../use-api.ts'
import { Ready } from './basics.tsx'
import { Page, Section } from './page.tsx'
import { Table, type TableProps } from './table.tsx'

interface LoadedPageProps<T> {
  loaded: Loaded<T>
  /** A function has no data until the reply is there. */
  title: string | ((data: T | undefined) => string)
  /** One sentence below the title. */
  about?: string
  /** Buttons beside the title, which need the data. */
  actions?: (data: T) => ComponentChildren
  children: (data: T) => ComponentChildren
}

export const LoadedPage = <T,>({ loaded, title, about, actions, children }: LoadedPageProps<T>) => (
  <Page
    title={typeof title === 'string' ? title : title(loaded.data)}
    actions={loaded.data !== undefined && actions?.(loaded.data)}
  >
    {about !== undefined && <p class="quiet">{about}</p>}
    <Ready loaded={loaded}>{children}</Ready>
  </Page>
)

interface LoadedTableProps<T, R> extends Omit<TableProps<R>, 'rows'> {
  loaded: Loaded<T>
  rows: (data: T) => readonly R[]
  /** Stands below the table. */
  below?: (rows: readonly R[]) => ComponentChildren
}

/** A table under its caption as a heading, or why its rows are not there. */
export const LoadedTable = <T, R>({ loaded, rows: rowsOf, below, ...table }: LoadedTableProps<T, R>) => (
  <Section title={table.caption}>
    <Ready loaded={loaded}>
      {(data) => (
        <>
          <Table {...table} rows={rowsOf(data)} />
          {below?.(rowsOf(data))}
        </>
      )}
    </Ready>
  </Section>
)
