/**
 * SQL of retention: deletes rows that nothing needs any more, in small pages along the primary key.
 *
 * As in expiry-store.ts, a walk continues from where it stopped to the oldest key that may be too
 * young. So no row is read twice. A page is one short transaction with its own time-outs: it waits
 * briefly for locks, and holds its row locks for milliseconds.
 */

import { withoutSignOctet } from '../domain/revocation.ts'
import { AUTHORIZATION, finalStatuses } from '../domain/states.ts'
import { lowestUuidv7, uuidTime } from '../shared/lib/uuid.ts'
import { parseCertId } from '../shared/protocol/renewal-info.ts'
import { slowNow } from './clock-store.ts'
import type { Database, Statement } from './database.ts'
import { authorization, order } from './status-sql.ts'

export interface RetentionWalk {
  /** Names the place in `cleanup_progress`. */
  name: string
  /** Minimum age since the end of a row's lifetime. */
  ageMs: number
  /** How long rows of this kind live. Rows younger than both together are not read. */
  lifetimeMs: number
}

export interface RetentionPage {
  deleted: number
  /** Whether there may be more to do at once. */
  full: boolean
}

export interface RetentionStore {
  /** By the slow clock. */
  now(): Promise<Date>
  /** False for `pauseSeconds` after any instance last finished the walk. */
  isDue(walk: string, pauseSeconds: number): Promise<boolean>
  finish(walk: string): Promise<void>
  /** Orders whose key was made before this are closed and stay closed. */
  ordersClosedUntil(orderLifetimeMs: number, now: Date): Promise<Date>
  /** Deletes one page of invalid orders. Stops at an order that is not final yet. */
  deleteOrders(walk: RetentionWalk, now: Date): Promise<RetentionPage>
  /** Deletes one page of final authorizations. Stops at one that has not ended before `endedBefore`. */
  deleteAuthorizations(walk: RetentionWalk, endedBefore: Date, now: Date): Promise<RetentionPage>
  /** Deletes only the invalid ones, and skips rows that the other walk deletes. */
  deleteInvalidAuthorizations(walk: RetentionWalk, endedBefore: Date, now: Date): Promise<RetentionPage>
}

/** Takes a few milliseconds, and locks as many rows. */
const PAGE_SIZE = 1000
/** A hundred times what a page takes with a cold cache. */
const BOUNDS = { statementMs: 5_000, lockMs: 100 }

export const SET_BOUNDS: Statement = {
  name: 'retention-bounds',
  text: `SELECT set_config('statement_timeout', '${BOUNDS.statementMs}', true), set_config('lock_timeout', '${BOUNDS.lockMs}', true)`,
}

const IS_DUE: Statement = {
  name: 'retention-is-due',
  // cleanup_progress_pkey
  text: `
    SELECT NOT EXISTS (SELECT FROM cleanup_progress
                        WHERE task = $1 AND finished_at > now() - make_interval(secs => $2)) AS due`,
}

const FINISH: Statement = {
  name: 'retention-finish',
  text: `
    INSERT INTO cleanup_progress (task, after_id, finished_at) VALUES ($1, '00000000-0000-0000-0000-000000000000', now())
    ON CONFLICT (task) DO UPDATE SET finished_at = now()`,
}

const FIRST_UNEXPIRED: Statement = {
  name: 'retention-first-unexpired',
  // orders_pkey, from the mark of the expiry of orders (expiry-store.ts).
  text: `
    SELECT id FROM orders
     WHERE id > coalesce((SELECT after_id FROM cleanup_progress WHERE task = 'orders'), '00000000-0000-0000-0000-000000000000')
       AND id < $1
     ORDER BY id LIMIT 1`,
}

interface Deletion {
  table: 'orders' | 'authorizations'
  /** Conditions on a row `p`; $3 is the time before which it must have ended. */
  gone: string
  waits: string
  /** More result columns over the deleted rows, for what else must be deleted. */
  result?: string
}

const deletion = (name: string, { table, gone, waits, result = '' }: Deletion): Statement => ({
  name,
  // cleanup_progress_pkey, one range of the table's primary key, and deletes by key.
  text: `
    WITH page AS (
      SELECT id, status, expires_at FROM ${table}
       WHERE id > coalesce((SELECT after_id FROM cleanup_progress WHERE task = $1), '00000000-0000-0000-0000-000000000000')
         AND id < $2
       ORDER BY id LIMIT ${PAGE_SIZE}
    ), done AS (
      SELECT * FROM page
       WHERE id < coalesce((SELECT id FROM page p WHERE ${waits} ORDER BY id LIMIT 1), 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    ), deleted AS (
      DELETE FROM ${table} t USING done p WHERE t.id = p.id AND t.status = p.status AND ${gone} AND p.expires_at < $3
      RETURNING t.*
    ), progress AS (
      INSERT INTO cleanup_progress AS p (task, after_id) SELECT $1, id FROM done ORDER BY id DESC LIMIT 1
      ON CONFLICT (task) DO UPDATE SET after_id = greatest(p.after_id, excluded.after_id)
    )
    SELECT count(*)::integer AS deleted, (SELECT count(*)::integer FROM done) AS seen${result} FROM deleted`,
})

const DELETE_ORDERS = deletion('retention-delete-orders', {
  table: 'orders',
  gone: `p.status ${order.is('invalid')}`,
  waits: `p.status ${order.is('open', 'processing')} OR p.status ${order.is('invalid')} AND p.expires_at >= $3`,
  result: `,
           array_agg(id) FILTER (WHERE replaces IS NOT NULL) AS replacing,
           array_agg(replaces) FILTER (WHERE replaces IS NOT NULL) AS replaced`,
})

const OVER = finalStatuses(AUTHORIZATION)

const DELETE_AUTHORIZATIONS = deletion('retention-delete-authorizations', {
  table: 'authorizations',
  gone: `p.status ${authorization.is(...OVER)}`,
  waits: `p.status ${authorization.isNot(...OVER)} OR p.expires_at >= $3`,
})

const DELETE_INVALID_AUTHORIZATIONS = deletion('retention-delete-invalid-authorizations', {
  table: 'authorizations',
  gone: `p.status ${authorization.is('invalid')}`,
  waits: `p.status ${authorization.is('invalid')} AND p.expires_at >= $3`,
})

/** Another order may replace a certificate once the replacing order is invalid, so also once that is deleted. */
const FREE_REPLACED: Statement = {
  name: 'retention-free-replaced',
  // certificates_serial_issuer, replacements_pkey
  text: `
    DELETE FROM replacements r USING unnest($1::uuid[], $2::bytea[]) AS i (order_id, serial_number), certificates c
     WHERE c.serial_number = i.serial_number AND r.certificate_id = c.id AND r.order_id = i.order_id`,
}

function serialNumberOf(certId: string): Buffer | null {
  const identity = parseCertId(certId)
  return identity ? withoutSignOctet(identity.serialNumber) : null
}

interface PageRow {
  deleted: number
  seen: number
  replacing?: string[] | null
  replaced?: string[] | null
}

export function createRetentionStore(db: Database): RetentionStore {
  function deletePage(statement: Statement, walk: RetentionWalk, endedBefore: Date, now: Date): Promise<RetentionPage> {
    const youngest = lowestUuidv7(now.getTime() - walk.lifetimeMs - walk.ageMs)
    return db.transaction(async (tx) => {
      await tx.query(SET_BOUNDS, [])
      const [row] = await tx.query<PageRow>(statement, [walk.name, youngest, endedBefore])
      const { deleted, seen, replacing, replaced } = row as PageRow
      if (replacing && replaced) {
        const serialNumbers = replaced.map((text) => serialNumberOf(text))
        await tx.query(FREE_REPLACED, [replacing, serialNumbers])
      }
      return { deleted, full: seen === PAGE_SIZE }
    })
  }

  return {
    now: () => slowNow(db),
    async isDue(walk, pauseSeconds) {
      const [row] = await db.query<{ due: boolean }>(IS_DUE, [walk, pauseSeconds])
      return row?.due === true
    },
    async finish(walk) {
      await db.query(FINISH, [walk])
    },
    async ordersClosedUntil(orderLifetimeMs, now) {
      const overdue = new Date(now.getTime() - orderLifetimeMs)
      const [first] = await db.query<{ id: string }>(FIRST_UNEXPIRED, [lowestUuidv7(overdue.getTime())])
      return first ? uuidTime(first.id) : overdue
    },
    deleteOrders: (walk, now) => deletePage(DELETE_ORDERS, walk, new Date(now.getTime() - walk.ageMs), now),
    deleteAuthorizations: (walk, endedBefore, now) => deletePage(DELETE_AUTHORIZATIONS, walk, endedBefore, now),
    deleteInvalidAuthorizations: (walk, endedBefore, now) =>
      deletePage(DELETE_INVALID_AUTHORIZATIONS, walk, endedBefore, now),
  }
}

/** Old notifications, and old marks of warnings of expiry. */
const NOTIFICATIONS: Statement = {
  name: 'retention-notifications',
  // notifications_pkey, which is in the order of time.
  text: `
    WITH gone AS (
      DELETE FROM notifications WHERE id IN (SELECT id FROM notifications WHERE id < $1 ORDER BY id LIMIT ${PAGE_SIZE})
      RETURNING 1
    )
    SELECT count(*)::integer AS deleted FROM gone`,
}

const NOTICES: Statement = {
  name: 'retention-expiration-notices',
  // expiration_notices_age
  text: `
    WITH gone AS (
      DELETE FROM expiration_notices WHERE (certificate_id, warning_days) IN (
        SELECT certificate_id, warning_days FROM expiration_notices WHERE noticed_at < $1
         ORDER BY noticed_at LIMIT ${PAGE_SIZE})
      RETURNING 1
    )
    SELECT count(*)::integer AS deleted FROM gone`,
}

export interface NoticeAges {
  notificationMs: number
  noticeMs: number
}

/** @returns how many rows were deleted */
export async function deleteOldNotices(
  db: Pick<Database, 'query'>,
  { notificationMs, noticeMs }: NoticeAges,
  isStopping: () => boolean,
): Promise<number> {
  const now = (await slowNow(db)).getTime()
  let total = 0
  for (const [statement, value] of [
    [NOTIFICATIONS, lowestUuidv7(now - notificationMs)],
    [NOTICES, new Date(now - noticeMs)],
  ] as const) {
    for (let deleted = PAGE_SIZE; deleted === PAGE_SIZE && !isStopping(); total += deleted)
      deleted = (await db.query<{ deleted: number }>(statement, [value]))[0]?.deleted ?? 0
  }
  return total
}
