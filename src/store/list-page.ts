/**
 * Pages of long lists. A page continues after the last row of the previous one, by cursor, and
 * returns within a bounded time.
 *
 * When filters exceed an index, rows are searched in windows along the index. The end of a window
 * is read first, so that the search advances even when no row fits.
 *
 * Also the condition of a registrar's scope: whether a row has one of its tags. A row without tags is in no scope.
 */

import * as z from 'zod/v4'
import type { Scope } from '../domain/permissions.ts'
import { lowestUuidv7 } from '../shared/lib/uuid.ts'
import { type CommonQueryMethods, rowsOf, sql } from './slonik.ts'

export interface ListPage<T> {
  rows: T[]
  /** Where the next page begins; undefined at the end of the list. */
  next: string | undefined
  /** False when the search stopped before the page was full. */
  isComplete: boolean
  /** Rows of the windows that did not fill the page. */
  lookedThrough: number
}

/** One order in which to read a table. Cursors are ids; undefined starts at the first row. */
export interface Walk<T> {
  /** The id of the row that is `rows` after the cursor; undefined when there are fewer. */
  windowEnd(after: string | undefined, rows: number): Promise<string | undefined>
  /** Fitting rows after `after`, up to and including `end`. */
  read(after: string | undefined, end: string | undefined, limit: number): Promise<T[]>
  cursorOf(row: T): string
}

/** The first suits pages that fill at once; a thousand rows take a few milliseconds, cached or not. */
const WINDOWS = [1_000, 4_000, 8_000]
/**
 * No window starts later than this, and one takes about 10 ms. So a page returns within 50 ms, however few rows fit.
 */
const LOOKING_MS = 25

/** @param now milliseconds of a clock that never goes back */
export async function readPage<T>(
  walk: Walk<T>,
  after: string | undefined,
  limit: number,
  now = () => performance.now(),
): Promise<ListPage<T>> {
  const rows: T[] = []
  const startedAt = now()
  let cursor = after
  let lookedThrough = 0
  for (let turn = 0; turn === 0 || now() - startedAt < LOOKING_MS; turn++) {
    const size = WINDOWS[turn] ?? (WINDOWS.at(-1) as number)
    const end = await walk.windowEnd(cursor, size)
    // One more than wanted shows whether there is a next page.
    rows.push(...(await walk.read(cursor, end, limit + 1 - rows.length)))
    if (rows.length > limit) {
      const page = rows.slice(0, limit)
      return { rows: page, next: walk.cursorOf(page.at(-1) as T), isComplete: true, lookedThrough }
    }
    if (end === undefined) return { rows, next: undefined, isComplete: true, lookedThrough }
    cursor = end
    lookedThrough += size
  }
  return { rows, next: cursor, isComplete: false, lookedThrough }
}

/** @returns the id of the row that is `rows` after the cursor; undefined when there are fewer */
export type Skip = (after: string | undefined, rows: number) => Promise<string | undefined>

/** @param after the cursor of the previous page */
export type ReadPage<T> = (after: string | undefined, limit: number) => Promise<ListPage<T>>

/**
 * Reads page after page until one is full or the list ends.
 * @param continues receives the rows so far after each unfinished page; false ends the search
 */
export async function readToEnd<T>(
  read: ReadPage<T>,
  after: string | undefined,
  limit: number,
  continues: (soFar: ListPage<T>) => boolean,
): Promise<ListPage<T>> {
  let found = await read(after, limit)
  while (!found.isComplete && found.rows.length < limit && continues(found)) {
    const page = await read(found.next, limit - found.rows.length)
    const lookedThrough = found.lookedThrough + page.lookedThrough
    found = { ...page, rows: [...found.rows, ...page.rows], lookedThrough }
  }
  return found
}

/** For indexes that find the fitting rows and hardly any others. */
export function unbounded<T>(walk: Walk<T>): Walk<T> {
  return { ...walk, windowEnd: async () => undefined }
}

interface WalkById<T> {
  /** Such as `accounts a`, its id, and the conditions of its index. */
  table: Fragment
  id: Fragment
  bounds: readonly Fragment[]
  /** All conditions of a row. */
  fits: readonly Fragment[]
  /** Rows by descending id. */
  read: (where: ReturnType<typeof allOf>, limit: number) => Promise<readonly T[]>
}

/** Along the primary key, newest first. */
export function walkById<T extends { id: string }>(db: CommonQueryMethods, options: WalkById<T>): Walk<T> {
  const { table, id, bounds, fits, read } = options
  return {
    cursorOf: (row) => row.id,
    async windowEnd(from, rows) {
      const row = await db.maybeOne(rowsOf(Id)`
        SELECT ${id} FROM ${table} WHERE ${allOf([behind(id, from), ...bounds])}
         ORDER BY ${id} DESC OFFSET ${rows - 1} LIMIT 1`)
      return row?.id
    },
    read: async (from, end, limit) => [...(await read(allOf([behind(id, from), upTo(id, end), ...fits]), limit))],
  }
}

/**
 * Past so many rows of a table, along its primary key alone.
 * @returns undefined for a filtered list
 */
export function skipById(db: CommonQueryMethods, table: Fragment, id: Fragment, filter: object): Skip | undefined {
  if (Object.values(filter).some((value) => value !== undefined)) return undefined
  return walkById<{ id: string }>(db, { table, id, bounds: [], fits: [], read: async () => [] }).windowEnd
}

/** Pages of all rows along a unique id, newest first. */
export function pageById<T extends { id: string }>(
  column: Fragment,
  read: (condition: Fragment, limit: number) => Promise<readonly T[]>,
): ReadPage<T> {
  const walk = unbounded<T>({
    cursorOf: ({ id }) => id,
    windowEnd: async () => undefined,
    read: async (from, _end, limit) => [...(await read(behind(column, from), limit))],
  })
  return (after, limit) => readPage(walk, after, limit)
}

/** Whether an index made only on request exists (optional-indexes.ts). */
export async function hasIndex(db: CommonQueryMethods, name: string): Promise<boolean> {
  return db.exists(rowsOf(z.object({}))`
    SELECT FROM pg_index WHERE indexrelid = to_regclass(${name}) AND indisvalid`)
}

const Id = z.object({ id: z.string() })

export type Fragment = ReturnType<typeof sql.fragment>
export const ALL_ROWS = sql.fragment`true`

export function allOf(conditions: readonly Fragment[]) {
  return sql.join([ALL_ROWS, ...conditions], sql.fragment` AND `)
}

/** For a walk along a column that is unique. */
export function behind(column: Fragment, after: string | undefined): Fragment {
  return after === undefined ? ALL_ROWS : sql.fragment`${column} < ${after}`
}

export function upTo(column: Fragment, end: string | undefined): Fragment {
  return end === undefined ? ALL_ROWS : sql.fragment`${column} >= ${end}`
}

export const instant = (at: Date): Fragment => sql.fragment`${at.toISOString()}::timestamptz`

/** Rows are committed after their key was made: recovery may complete an issuance a day later. */
const LATE_MS = 86_400_000

/** Bounds on a key, which contains the time at which it was made. */
export function createdBetween(column: Fragment, after: Date | undefined, before: Date | undefined): Fragment[] {
  return [
    ...(after ? [sql.fragment`${column} > ${lowestUuidv7(after.getTime() - LATE_MS)}`] : []),
    ...(before ? [sql.fragment`${column} < ${lowestUuidv7(before.getTime() + LATE_MS)}`] : []),
  ]
}

/** accounts_tags, whose condition is repeated. @param table with a column `tags` */
export const hasTagOf = (table: Fragment, scope: readonly string[]): Fragment =>
  sql.fragment`${table}.tags && ${sql.array([...scope], 'text')} AND ${table}.tags <> '{}'`

/** @param table with a column `tags` */
export const isInScope = (table: Fragment, scope: Scope): Fragment =>
  scope === undefined ? ALL_ROWS : hasTagOf(table, scope)

/** For rows that another index finds: as a join, it would begin with all accounts. Without an account it is null. */
export const isAccountInScope = (accountId: Fragment, scope: Scope): Fragment =>
  scope === undefined
    ? ALL_ROWS
    : sql.fragment`(SELECT ${hasTagOf(sql.fragment`s`, scope)} FROM accounts s WHERE s.id = ${accountId})`

/** The same for many rows that another index finds: by a hash of the accounts, as `IS TRUE` keeps it from becoming a join. */
export const isAmongAccountsOf = (accountId: Fragment, scope: Scope): Fragment =>
  scope === undefined
    ? ALL_ROWS
    : sql.fragment`(${accountId} IN (SELECT s.id FROM accounts s WHERE ${hasTagOf(sql.fragment`s`, scope)})) IS TRUE`
