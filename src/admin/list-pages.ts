/**
 * Pages of long lists, by offset or by cursor. The walks below return within a bounded time, full or
 * not; a page here is read until it is full, the list ends, or SEARCH_MS have passed.
 */

import { AdminError } from '../domain/admin-error.ts'
import { type ReadPage, readToEnd, type Skip } from '../store/list-page.ts'

/** Clients give up after 30 s, and a person does sooner. */
const SEARCH_MS = 2_000
/** Rows of the pages before an offset, read at once. */
const SKIPPED_AT_ONCE = 5_000
/** Reading on from a far offset costs as much as all rows before it. */
export const MOST_OFFSET = 100_000

export interface PageRequest {
  limit: number
  offset: number
  /** Undefined for a list by offset, empty for the first page by cursor. */
  cursor: string | undefined
}

/** Where the next page begins: an offset as long as the list was read by offset. */
type NextPlace = { offset: number } | { offset?: never; cursor: string }

export interface PageOfList<T> {
  rows: readonly T[]
  limit: number
  /** Undefined at the end of the list. */
  next: NextPlace | undefined
  /** The search ended after SEARCH_MS, with a page that is not full. */
  isCut: boolean
}

/**
 * @param skip where the rows before the offset need not be read
 * @throws AdminError when the rows before the offset take too long to find, and when none was found in SEARCH_MS
 */
export async function readPageOf<T>(
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
  const goesOnByOffset = cursor === undefined && isComplete && offset + limit <= MOST_OFFSET
  return { rows, limit, next: goesOnByOffset ? { offset: offset + limit } : { cursor: next }, isCut: !isComplete }
}

/** An empty list would be wrong, since rows may lie further on. */
function nothingYet(limit: number, cursor: string): AdminError {
  const message = `the search was cut off after ${SEARCH_MS / 1000} seconds and has found nothing so far; narrow it, or continue with cursor=${cursor}`
  return new AdminError('unavailable', message, { next: { limit: String(limit), cursor } })
}

function tooFar(offset: number): AdminError {
  const message = `takes too long to reach ${offset} with these filters; begin with an empty 'cursor' to read on from page to page`
  return new AdminError('invalid_request', `the query is not right: 'offset' ${message}`, {
    fields: [{ field: 'offset', message }],
  })
}
