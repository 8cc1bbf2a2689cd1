/** Columns of tables: what each kind of value looks like, and the columns that several pages show. */

import type { ComponentChildren } from 'preact'
import { countText } from '../format.ts'
import { AccountLink, Badge, Copyable, Tags, Time, type Tone } from './basics.tsx'

type Text = string | number | null | undefined
type Instant = string | null | undefined

/** How a value is drawn. `layout` is the class of the cell: `wide` takes what is left, `word` breaks no word, `fixed` no line. */
const KINDS = {
  text: { draw: (text: Text): ComponentChildren => text },
  wide: { draw: (text: Text): ComponentChildren => text, layout: 'wide' },
  word: { draw: (text: Text): ComponentChildren => text, layout: 'word' },
  fixed: { draw: (text: Text): ComponentChildren => text, layout: 'fixed' },
  number: { draw: (count: number) => countText(count), layout: 'number' },
  code: { draw: (text: Text) => <code>{text}</code> },
  copy: { draw: (text: string | null) => text && <Copyable text={text} /> },
  names: { draw: (names: readonly string[] | null | undefined) => names?.join(', '), layout: 'wide' },
  tags: { draw: (tags: readonly string[]) => <Tags tags={tags} /> },
  time: { draw: (at: Instant) => <Time at={at} />, layout: 'fixed', isSorted: true },
  /** A time without its distance from now: lists have little room. */
  instant: { draw: (at: Instant) => <Time at={at} relative={false} />, layout: 'fixed', isSorted: true },
} as const satisfies Readonly<Record<string, Kind>>

interface Kind {
  draw(value: never): ComponentChildren
  layout?: 'number' | 'wide' | 'word' | 'fixed'
  /** A complete list is sorted by such a column, also where the column does not say so. */
  isSorted?: true
}

type KindName = keyof typeof KINDS
type ValueOf<K extends KindName> = Parameters<(typeof KINDS)[K]['draw']>[0]
type KindOf<V> = { [K in KindName]: [V] extends [ValueOf<K>] ? K : never }[KindName]

interface Head<R> {
  head: string
  /** Passed to `onSort`: the service sorts. */
  sort?: string
  /** The value by which rows that are all there are sorted. */
  by?: (row: R) => string | number | null
}

/** A column that draws a member of the row by its kind, as a link where `to` says so. */
type MemberColumn<R> = {
  [M in keyof R & string]: Head<R> & {
    member: M
    kind?: KindOf<R[M]>
    /** Rows that are all there are sorted by the member. */
    sorts?: true
    /** Where the value leads. */
    to?: (row: R) => string
    /** The value is a state in one word, and has the colour of its tone. */
    tones?: Readonly<Record<string, Tone>>
    cell?: undefined
  }
}[keyof R & string]

/** A column that says itself what it shows. */
type CellColumn<R> = Head<R> & { cell: (row: R) => ComponentChildren; kind?: KindName; member?: undefined }

export type Column<R> = MemberColumn<R> | CellColumn<R>

/** What the table needs of a column, whatever its row is. */
interface PlainColumn extends Head<unknown> {
  kind?: KindName
  cell?: (row: unknown) => ComponentChildren
  member?: string
  sorts?: true
  to?: (row: unknown) => string
  tones?: Readonly<Record<string, Tone>>
}

const plain = (column: Column<never>) => column as unknown as PlainColumn
const memberOf = (row: unknown, member: string) => (row as Readonly<Record<string, unknown>>)[member]

export const layoutOf = (column: Column<never>): string | undefined => {
  const { layout }: Kind = KINDS[plain(column).kind ?? 'text']
  return layout
}

/** What the column shows of a row. */
export function drawnBy<R>(column: Column<R>, row: R): ComponentChildren {
  const { cell, member = '', kind = 'text', to, tones } = plain(column)
  if (cell) return cell(row)
  const value = memberOf(row, member)
  const drawn = tones ? <Badge tone={tones[String(value)]}>{String(value)}</Badge> : KINDS[kind].draw(value as never)
  return to ? <a href={to(row)}>{drawn}</a> : drawn
}

/** @returns undefined for a column by which nobody sorts */
export function orderOf<R>(column: Column<R>): ((row: R) => string | number | null) | undefined {
  const { by, member, sorts, kind = 'text' } = plain(column)
  const { isSorted }: Kind = KINDS[kind]
  if (by || member === undefined || !(sorts ?? isSorted)) return by
  return (row) => memberOf(row, member) as string | number | null
}

/** One row as names and values, for `Facts`. */
export const factsOf = <R,>(row: R, columns: readonly Column<R>[]) =>
  columns.map((column) => [column.head, drawnBy(column, row)] as const)

const Unknown = () => <span class="quiet fixed">not known</span>

export const ACCOUNT: Column<{ account_id: string | null; account_name: string | null }> = {
  head: 'Account',
  cell: ({ account_id: id, account_name: name }) => id !== null && <AccountLink id={id} name={name} />,
}

/** The client that an account was last seen with. */
export const CLIENT: Column<{ client: string | null }> = {
  head: 'Client',
  by: ({ client }) => client,
  cell: ({ client }) => client ?? <Unknown />,
}

export const LAST_SEEN: Column<{ last_seen_at: string | null }> = {
  head: 'Last seen',
  kind: 'fixed',
  by: ({ last_seen_at: at }) => at,
  cell: ({ last_seen_at: at }) => (at === null ? <Unknown /> : <Time at={at} relative={false} />),
}
