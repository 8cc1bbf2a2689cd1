/** Orders of a list of certificates, and the ways along one index in such an order. */

import { ALL_ROWS, allOf, behind, type Fragment, upTo } from '../../store/list-page.ts'
import { constantSql, sql } from '../../store/slonik.ts'
import { type CertificateFilter, conditionsOf, HAS_ENDED, IS_CURRENT } from './certificate-filter.ts'

/** Columns by which rows are sorted, and the conditions of rows behind one of them and up to one. */
export interface Order {
  by: Fragment
  behind(after: string | undefined): Fragment
  upTo(end: string | undefined): Fragment
}

/** Rows behind a cursor and up to the end of a window; at most `limit` of them are wanted. */
export interface Part {
  after: string | undefined
  end: string | undefined
  where: readonly Fragment[]
  limit: number
}

export interface Way {
  by: Fragment
  /** Certificates `c` of a part, for FROM. */
  rows(part: Part): Fragment
  /** Entries of the index, with or without a match. Absent where the index holds hardly more than the matches. */
  entries?: (after: string | undefined, limit: number) => Fragment
  /** Replaces the conditions of the filter, where the index answers some of them. */
  fits?: readonly Fragment[]
}

/** Conditions that the indexes by expiry answer. */
export const endsOf = ({ status, expiring_after, expiring_before }: CertificateFilter): Fragment[] => [
  ...conditionsOf({ expiring_after, expiring_before }),
  ...(status === 'active' ? [IS_CURRENT] : []),
  ...(status === 'expired' ? [HAS_ENDED] : []),
]

export const ID = sql.fragment`c.id`
export const BY_ID: Order = {
  by: sql.fragment`c.id DESC`,
  behind: (after) => behind(ID, after),
  upTo: (end) => upTo(ID, end),
}

/** Compares by the order's id, or by the row's own id without an order. A cursor may be either id. */
export const behindOrder = (place: Fragment, after: string | undefined) =>
  after === undefined
    ? ALL_ROWS
    : sql.fragment`${place} < coalesce((SELECT order_id FROM certificates WHERE id = ${after}), ${after})`
const ORDER_ID = sql.fragment`coalesce(c.order_id, c.id)`
export const BY_ORDER: Order = {
  by: sql.fragment`${ORDER_ID} DESC`,
  behind: (after) => behindOrder(ORDER_ID, after),
  upTo: (end) => upTo(ORDER_ID, end),
}

/** Certificates that expire in the same second follow each other by id. */
export const EARLIEST_FIRST: Order = {
  by: sql.fragment`c.not_after, c.id`,
  behind: (after) => comparedByExpiry('>', after),
  upTo: (end) => comparedByExpiry('<=', end),
}
export const LATEST_FIRST: Order = {
  by: sql.fragment`c.not_after DESC, c.id DESC`,
  behind: (after) => comparedByExpiry('<', after),
  upTo: (end) => comparedByExpiry('>=', end),
}

function comparedByExpiry(sign: '<' | '<=' | '>' | '>=', id: string | undefined): Fragment {
  if (id === undefined) return ALL_ROWS
  const end = sql.fragment`(SELECT not_after FROM certificates WHERE id = ${id})`
  const side = constantSql(sign.startsWith('<') ? '<=' : '>=')
  return sql.fragment`
    c.not_after ${side} ${end} AND (c.not_after, c.id) ${constantSql(sign)} (${end}, ${id}::uuid)`
}

/** @param bounds conditions that the index answers; undefined where it leads to the fitting rows */
export function along(order: Order, bounds?: readonly Fragment[]): Way {
  const rows = (conditions: readonly Fragment[]) => sql.fragment`certificates c WHERE ${allOf(conditions)}`
  return {
    by: order.by,
    rows: ({ after, end, where }) => rows([order.behind(after), order.upTo(end), ...where]),
    ...(bounds && { entries: (after) => rows([order.behind(after), ...bounds]) }),
  }
}

/**
 * The index of the condition is forced: the planner expects thousands of certificates a name and would
 * read all by id.
 */
export const among = (condition: Fragment, order: Order): Way => ({
  by: order.by,
  rows: ({ after, where }) => sql.fragment`
    (SELECT * FROM certificates c WHERE ${condition} OFFSET 0) c WHERE ${allOf([order.behind(after), ...where])}`,
})
