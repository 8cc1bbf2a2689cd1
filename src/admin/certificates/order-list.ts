/**
 * SQL of the list of orders, newest first. The index is orders_names for a name, orders_failed for invalid ones,
 * orders_account for an account or a registrar's accounts, otherwise orders_pkey. orders_names exists only on request (optional-indexes.ts).
 */

import * as z from 'zod/v4'
import type { Scope } from '../../domain/permissions.ts'
import { ORDER, ORDER_STATUSES, type OrderStatus, type StoredOrderStatus } from '../../domain/states.ts'
import { isJsonObject } from '../../shared/lib/encoding.ts'
import { lowestUuidv7 } from '../../shared/lib/uuid.ts'
import {
  allOf,
  behind,
  type Fragment,
  hasIndex,
  hasTagOf,
  isAmongAccountsOf,
  type ListPage,
  readPage,
  type Skip,
  skipById,
  unbounded,
  upTo,
  type Walk,
  walkById,
} from '../../store/list-page.ts'
import { constantSql, type DatabasePool, rowsOf, sql } from '../../store/slonik.ts'
import { authorization, order, quoted } from '../../store/status-sql.ts'
import type { OrderQuery } from '../resources/accounts.ts'
import { allGiven, type Conditions } from '../schemas.ts'

/** A stored value that is no object becomes the member `stored`. */
export const StoredFacts = z
  .unknown()
  .transform((value): Record<string, unknown> | null =>
    value === null || isJsonObject(value) ? value : { stored: value },
  )

interface OrderFilter extends OrderQuery {
  /** Tags of which its account has one. */
  scope?: Scope
}

export const ListedOrderRow = z.object({
  id: z.string(),
  account_id: z.string(),
  status: z.enum(ORDER_STATUSES),
  identifiers: z.array(z.object({ type: z.string(), value: z.string() })),
  expires_at: z.date(),
  error: StoredFacts,
  certificate_id: z.string().nullable(),
})
export type ListedOrder = z.infer<typeof ListedOrderRow>

export const ORDER_COLUMNS = sql.fragment`
  o.id, o.account_id, derived.status, o.identifiers, o.expires_at, o.error, o.certificate_id`

/** `derived.status` of an order `o` (domain/states.ts). Reads authorizations only of open orders. */
export const derivedStatus = constantSql(`
  CROSS JOIN LATERAL (
    SELECT bool_or(status ${authorization.isNot('pending', 'valid')} OR expires_at <= now())
             OR count(*) < greatest(cardinality(o.authorization_ids), 1) AS failed, bool_or(status ${authorization.is('pending')}) AS pending
      FROM authorizations WHERE o.status ${order.is('open')} AND id = ANY (o.authorization_ids)
  ) z
  CROSS JOIN LATERAL (
    SELECT CASE WHEN o.status ${order.isNot('open')} THEN o.status
                WHEN o.expires_at <= now() OR z.failed THEN ${quoted(ORDER.pending.rejected)}
                WHEN z.pending THEN ${quoted<OrderStatus>('pending')}
                ELSE ${quoted(ORDER.pending.authorized)} END AS status
  ) derived`)

const ID = sql.fragment`o.id`
/**
 * Limits the search by status. Processing orders have an intent; pending and ready ones lie after
 * the mark of expiry (expiry-store.ts).
 */
const NOT_EXPIRED = sql.fragment`
  o.id > coalesce((SELECT after_id FROM cleanup_progress WHERE task = 'orders'), '00000000-0000-0000-0000-000000000000')`
const IS_OPEN = sql.fragment`o.error IS NULL AND o.status ${constantSql(order.is('open'))}`
const PLACES: Record<OrderStatus, readonly Fragment[]> = {
  pending: [NOT_EXPIRED],
  ready: [NOT_EXPIRED],
  processing: [
    sql.fragment`o.id = ANY (ARRAY(SELECT order_id FROM issuance_intents UNION ALL SELECT order_id FROM csr_issuances))`,
  ],
  valid: [],
  invalid: [],
}

/** The index orders_names has this expression. */
const NAMES = sql.fragment`jsonb_path_query_array(o.identifiers, '$[*].value')`

/** Stored statuses of orders that a client sees in this status. */
function storedOf(status: OrderStatus): StoredOrderStatus[] {
  if (status === 'processing' || status === 'valid') return [status]
  return status === 'invalid' ? ['open', 'invalid'] : ['open']
}

/** By the members of a query. The first instant is included, the second is not. */
const CONDITIONS: Conditions<OrderQuery> = {
  account_id: (id) => sql.fragment`o.account_id = ${id}`,
  domain: (name) => sql.fragment`${NAMES} @> ${JSON.stringify([name])}::jsonb`,
  status: (status) =>
    sql.fragment`o.status = ANY (${sql.array(storedOf(status), 'text')}) AND derived.status = ${status}`,
  created_after: (time) => sql.fragment`o.id > ${lowestUuidv7(new Date(time).getTime())}`,
  created_before: (time) => sql.fragment`o.id < ${lowestUuidv7(new Date(time).getTime())}`,
}

/** @param after the cursor of the previous page */
export async function listOrders(
  db: DatabasePool,
  { scope, ...query }: OrderFilter,
  after: string | undefined,
  limit: number,
): Promise<ListPage<ListedOrder>> {
  const { domain, status, ...indexed } = query
  /** Conditions that the index answers. */
  const bounds = [...(status === undefined ? [] : PLACES[status]), ...allGiven(CONDITIONS, indexed)]
  const ofName = allGiven(CONDITIONS, { domain })
  const inScope = scope === undefined ? [] : [isAmongAccountsOf(sql.fragment`o.account_id`, scope)]
  const fits = [...bounds, ...inScope, ...ofName, ...allGiven(CONDITIONS, { status })]
  const read = (from: Fragment, where: ReturnType<typeof allOf>, count: number) =>
    db.any(rowsOf(ListedOrderRow)`
      SELECT ${ORDER_COLUMNS} FROM ${from} o ${derivedStatus} WHERE ${where}
       ORDER BY o.id DESC LIMIT ${count}`)
  const walkAlong = (orders: Fragment) =>
    walkById<ListedOrder>(db, {
      table: sql.fragment`orders o`,
      id: ID,
      bounds,
      fits,
      read: (where, count) => read(orders, where, count),
    })
  if (domain !== undefined && (await hasIndex(db, 'orders_names'))) {
    // The planner expects thousands of orders a name and would read all by id.
    const named = sql.fragment`(SELECT * FROM orders o WHERE ${allOf(ofName)} OFFSET 0)`
    return readPage(unbounded(walkAlong(named)), after, limit)
  }
  const readAmong = (from: Fragment, count: number) => read(from, allOf(fits), count)
  if (status === 'invalid')
    return readPage(walkAmong(db, failedOrders, [...bounds, ...inScope], readAmong), after, limit)
  if (scope !== undefined) return readPage(walkAmong(db, ordersOf(scope), bounds, readAmong), after, limit)
  const walk = walkAlong(sql.fragment`orders`)
  return readPage(fits.length === 0 ? unbounded(walk) : walk, after, limit)
}

/** Orders `o` that meet the conditions. @param most order and limit, or a limit to what the planner may rearrange */
type Orders = (columns: Fragment, conditions: readonly Fragment[], most: Fragment) => Fragment

/** Orders that a client may see as invalid: orders_failed finds those with an error; the open ones are read and checked. */
const failedOrders: Orders = (columns, conditions, most) => sql.fragment`(
  (SELECT ${columns} FROM orders o WHERE ${allOf([sql.fragment`o.error IS NOT NULL`, ...conditions])} ${most})
  UNION ALL
  (SELECT ${columns} FROM orders o WHERE ${allOf([IS_OPEN, NOT_EXPIRED, ...conditions])} ${most}))`

/** Orders of the accounts with one of these tags: accounts_tags, then orders_account. */
const ordersOf =
  (scope: readonly string[]): Orders =>
  (columns, conditions, most) =>
    sql.fragment`(
    SELECT o.* FROM accounts s CROSS JOIN LATERAL (
      SELECT ${columns} FROM orders o WHERE ${allOf([sql.fragment`o.account_id = s.id`, ...conditions])} ${most}) o
     WHERE ${hasTagOf(sql.fragment`s`, scope)})`

/** No window ends at an order outside the scope, so that no cursor names one. */
function walkAmong(
  db: DatabasePool,
  orders: Orders,
  bounds: readonly Fragment[],
  read: (from: Fragment, limit: number) => Promise<readonly ListedOrder[]>,
): Walk<ListedOrder> {
  return {
    cursorOf: ({ id }) => id,
    async windowEnd(after, rows) {
      const newest = orders(ID, [behind(ID, after), ...bounds], sql.fragment`ORDER BY o.id DESC LIMIT ${rows}`)
      const row = await db.maybeOne(rowsOf(z.object({ id: z.string() }))`
        SELECT o.id FROM ${newest} o ORDER BY o.id DESC OFFSET ${rows - 1} LIMIT 1`)
      return row?.id
    },
    async read(after, end, limit) {
      const inWindow = [behind(ID, after), upTo(ID, end), ...bounds]
      const window = orders(sql.fragment`o.*`, inWindow, sql.fragment`OFFSET 0`)
      return [...(await read(window, limit))]
    },
  }
}

/** Works as skipOfCertificates. */
export function skipOfOrders(db: DatabasePool, filter: OrderFilter): Skip | undefined {
  return skipById(db, sql.fragment`orders o`, ID, filter)
}
