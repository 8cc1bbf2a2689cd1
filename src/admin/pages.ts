/**
 * Pages of lists by `limit` and `offset`, or by `cursor`. A walk of the store returns within a bounded time, full or
 * not; a page is read until it is full, the list ends, or SEARCH_MS have passed.
 */

import * as z from 'zod/v4'
import { AdminError } from '../domain/admin-error.ts'
import { type ReadPage, readToEnd, type Skip } from '../store/list-page.ts'
import { notRight } from './admin-errors.ts'
import type { PageSettings } from './context.ts'
import { text, uuid, wholeParameter } from './schemas.ts'

/** A text that is no number becomes NaN, which `limitOf` refuses with the bound. */
export const limitParameter = () =>
  text(64, 'must be a whole number of rows')
    .transform((digits) => (/^\d{1,9}$/.test(digits) ? Number(digits) : Number.NaN))
    .meta({ type: 'integer', minimum: 1 })
    .optional()
const offset = () => wholeParameter(0, 999_999_999, 'must be a whole number, 0 or more')

export function limitOf(limit: number | undefined, { defaultSize, maxSize }: PageSettings): number {
  if (limit === undefined) return defaultSize
  if (limit >= 1 && limit <= maxSize) return limit
  throw wrong('limit', `must be a whole number from 1 to ${maxSize}`)
}

/** @throws AdminError for an offset too far; a cursor goes further */
function requireNear(offset: number): void {
  if (offset > MOST_OFFSET)
    throw wrong('offset', `must be at most ${MOST_OFFSET}; begin with an empty 'cursor' to read further`)
}

/** Query of a list that is read by offset or, begun with an empty value, by cursor. @param key the form of a row's own key */
export const placeParameters = (key: z.ZodType<string, string> = uuid()) => ({
  limit: limitParameter(),
  offset: offset().optional(),
  cursor: z
    .union([z.literal(''), key], { error: "must be empty for the first page, or taken from a page's Link" })
    .optional(),
})

interface Place {
  limit?: number | undefined
  offset?: number | undefined
  cursor?: string | undefined
}

/** @throws AdminError for an offset too far, or beside a cursor */
function pageRequest({ limit, offset = 0, cursor }: Place, settings: PageSettings): PageRequest {
  requireNear(offset)
  if (cursor !== undefined && offset > 0) throw wrong('offset', "cannot stand beside 'cursor'")
  return { limit: limitOf(limit, settings), offset, cursor }
}

/** The query of the next page, for Link. */
function nextOf({ next, limit }: PageOfList<unknown> & { limit: number }) {
  if (next === undefined) return undefined
  const place = next.offset === undefined ? { cursor: next.cursor } : { offset: String(next.offset) }
  return { limit: String(limit), ...place }
}

/** Query of a list that continues by offset alone. */
export const offsetParameters = () => ({ limit: limitParameter(), offset: offset().default(0) })

export interface OffsetPage {
  limit: number
  offset: number
}

/** @param read is asked for one row more than the page has, which tells whether there is another page */
export async function readByOffset<T>(
  { limit: wanted, offset }: { limit?: number | undefined; offset: number },
  settings: PageSettings,
  read: (page: OffsetPage) => Promise<readonly T[]>,
) {
  requireNear(offset)
  const limit = limitOf(wanted, settings)
  const rows = await read({ limit: limit + 1, offset })
  const next = rows.length > limit ? { limit: String(limit), offset: String(offset + limit) } : undefined
  return { rows: rows.slice(0, limit), next }
}

const wrong = (field: string, message: string) => notRight('query', [{ field, message }])

/** Clients give up after 30 s, and a person does sooner. */
const SEARCH_MS = 2_000
/** Rows of the pages before an offset, read at once. */
const SKIPPED_AT_ONCE = 5_000
/** Reading on from a far offset costs as much as all rows before it. */
const MOST_OFFSET = 100_000

interface PageRequest {
  limit: number
  offset: number
  /** Undefined for a list by offset, empty for the first page by cursor. */
  cursor: string | undefined
}

/** Where the next page begins: an offset as long as the list was read by offset. */
type NextPlace = { offset: number } | { offset?: never; cursor: string }

interface PageOfList<T> {
  rows: readonly T[]
  limit: number
  /** Undefined at the end of the list. */
  next: NextPlace | undefined
  /** The search ended after SEARCH_MS, with a page that is not full. */
  isCut: boolean
}

/**
 * @param skip where the rows before the offset need not be read
 * @throws AdminError when the rows before the offset take too long to find
 * @throws AdminError when no row was found in SEARCH_MS
 */
async function readPageOf<T>(
  read: ReadPage<T>,
  { limit, offset, cursor }: PageRequest,
  skip?: Skip,
): Promise<PageOfList<T>> {
  const deadline = performance.now() + SEARCH_MS
  const isInTime = () => performance.now() < deadline
  let after = cursor || undefined
  if (skip && offset > 0) {
    after = await skip(after, offset)
    if (after === undefined) return { rows: [], limit, next: undefined, isCut: false }
  }
  for (let left = skip ? 0 : offset; left > 0; ) {
    const { rows, next } = await read(after, Math.min(left, SKIPPED_AT_ONCE))
    if (next === undefined) return { rows: [], limit, next: undefined, isCut: false }
    left -= rows.length
    after = next
    if (left > 0 && !isInTime()) throw tooFar(offset)
  }
  const { rows, next, isComplete } = await readToEnd(read, after, limit, isInTime)
  if (next === undefined) return { rows, limit, next: undefined, isCut: false }
  if (!isComplete && rows.length === 0) throw nothingYet(limit, next)
  // After an unfinished page, or near the last offset, only a cursor leads on.
  const continuesByOffset = cursor === undefined && isComplete && offset + limit <= MOST_OFFSET
  return { rows, limit, next: continuesByOffset ? { offset: offset + limit } : { cursor: next }, isCut: !isComplete }
}

/** An empty list would be wrong, since rows may lie further on. */
function nothingYet(limit: number, cursor: string): AdminError {
  const message = `the search was cut off after ${SEARCH_MS / 1000} seconds and has found nothing so far; narrow it, or continue with cursor=${cursor}`
  return new AdminError('unavailable', message, { next: { limit: String(limit), cursor } })
}

const tooFar = (offset: number) =>
  wrong(
    'offset',
    `takes too long to reach ${offset} with these filters; begin with an empty 'cursor' to read on from page to page`,
  )

/** A page of a list at the place that its query names. */
export async function readAtPlace<T>(place: Place, settings: PageSettings, read: ReadPage<T>, skip?: Skip) {
  const page = await readPageOf(read, pageRequest(place, settings), skip)
  return { rows: page.rows, next: nextOf(page), isCut: page.isCut }
}

/** Reads a page of a list that clients expect whole: as long as one request may ask for, when it does not say. */
export const readByCursor = <T>(place: Place, { maxSize }: PageSettings, read: ReadPage<T>) =>
  readAtPlace(place, { defaultSize: maxSize, maxSize }, read)
