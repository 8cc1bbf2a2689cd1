/** Pages of lists by `limit` and `offset`, or by `cursor`. */

import { z } from 'zod/v4'
import { AdminError } from '../domain/admin-error.ts'
import type { PageSettings } from './context.ts'
import { MOST_OFFSET, type PageOfList, type PageRequest } from './list-pages.ts'
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

/** Query of a list that is read by offset or, begun with an empty value, by cursor. */
export const placeParameters = () => ({
  limit: limitParameter(),
  offset: offset().optional(),
  cursor: z
    .union([z.literal(''), uuid()], { error: "must be empty for the first page, or taken from a page's Link" })
    .optional(),
})

export interface Place {
  limit?: number | undefined
  offset?: number | undefined
  cursor?: string | undefined
}

/** @throws AdminError for an offset too far, or beside a cursor */
export function pageRequest({ limit, offset = 0, cursor }: Place, settings: PageSettings): PageRequest {
  requireNear(offset)
  if (cursor !== undefined && offset > 0) throw wrong('offset', "cannot stand beside 'cursor'")
  return { limit: limitOf(limit, settings), offset, cursor }
}

/** Lists that clients expect whole: as long as one request may ask for, when it does not say. */
export const longPageRequest = (place: Place, { maxSize }: PageSettings): PageRequest =>
  pageRequest(place, { defaultSize: maxSize, maxSize })

/** The query of the next page, for Link. */
export function nextOf({ next, limit }: PageOfList<unknown> & { limit: number }) {
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

const wrong = (field: string, message: string) =>
  new AdminError('invalid_request', `the query is not right: '${field}' ${message}`, { fields: [{ field, message }] })
