/**
 * SQL of expiry: expired rows get the status that readers derive already.
 *
 * Keys are ordered by time, and rows made under one configuration expire in that order. So each
 * task walks a primary key from where it stopped to the oldest key that may be alive. It reads no
 * row twice and needs no index on `expires_at`, which every new order would pay for.
 */

import { ORDER_EXPIRED } from '../domain/states.ts'
import { lowestUuidv7 } from '../shared/lib/uuid.ts'
import { slowNow } from './clock-store.ts'
import type { Database, Statement } from './database.ts'
import { authorization, order } from './status-sql.ts'

export interface ExpiryPage {
  /** Rows that were marked. */
  expired: number
  /** Challenges that were offered with them and never met. */
  challenges: number
  /** Whether there may be more to do at once. */
  full: boolean
}

export interface ExpiryTask {
  /** Names the place in `cleanup_progress`. */
  name: string
  /** How long rows of this kind live; younger ones are not looked at. */
  lifetimeMs: number
  /**
   * Whether the walk stops at a live row, made under a longer lifetime, until the row expires. When two tasks walk one
   * table, only the longer-lived one waits; it will meet the row.
   */
  waits: boolean
}

export interface ExpiryStore {
  /** By the slow clock. */
  now(): Promise<Date>
  /** Orders open → invalid, one page. */
  expireOrders(task: ExpiryTask, now: Date): Promise<ExpiryPage>
  /** Authorizations pending or valid → expired, one page. */
  expireAuthorizations(task: ExpiryTask, now: Date): Promise<ExpiryPage>
}

/** Rows a statement, which takes milliseconds and locks rows for as long. */
const PAGE_SIZE = 1000

/** A row is committed at most this long after its key was made. */
const COMMIT_DELAY_MS = 5_000

const expireStatement = (name: string, table: string, isAlive: string, mark: string): Statement => ({
  name,
  // cleanup_progress_pkey, one range of the table's primary key, and updates by key.
  text: `
    WITH page AS (
      SELECT id, status, status ${isAlive} AS open, expires_at <= slow_now() AS over
        FROM ${table}
       WHERE id > coalesce((SELECT after_id FROM cleanup_progress WHERE task = $1), '00000000-0000-0000-0000-000000000000')
         AND id < $2
       ORDER BY id LIMIT ${PAGE_SIZE}
    ), done AS (
      SELECT id, open FROM page
       WHERE NOT $3 OR id < coalesce((SELECT id FROM page WHERE open AND NOT over ORDER BY id LIMIT 1),
                                     'ffffffff-ffff-ffff-ffff-ffffffffffff')
    ), ${mark}, progress AS (
      INSERT INTO cleanup_progress AS p (task, after_id) SELECT $1, id FROM done ORDER BY id DESC LIMIT 1
      ON CONFLICT (task) DO UPDATE SET after_id = greatest(p.after_id, excluded.after_id)
    )
    SELECT count(*)::integer AS expired, coalesce(sum(challenges), 0)::integer AS challenges,
           (SELECT count(*)::integer FROM done) AS seen
      FROM marked`,
})

const EXPIRE_ORDERS = expireStatement(
  'expire-orders',
  'orders',
  order.allows('expired'),
  `marked AS (
      UPDATE orders o SET status = ${order.after('expired')}, error = '${JSON.stringify(ORDER_EXPIRED)}' FROM page
       WHERE o.id = page.id AND page.open AND o.status ${order.allows('expired')} AND o.expires_at <= slow_now()
      RETURNING o.id, o.request_key, 0 AS challenges
    ), released AS (
      DELETE FROM order_claims c USING marked WHERE c.request_key = marked.request_key AND c.order_id = marked.id
    )`,
)

const EXPIRE_AUTHORIZATIONS = expireStatement(
  'expire-authorizations',
  'authorizations',
  authorization.allows('expire'),
  `marked AS (
      UPDATE authorizations z SET status = ${authorization.after('expire')}, validating_by = NULL, validating_since = NULL FROM page
       WHERE z.id = page.id AND page.open AND z.status ${authorization.allows('expire')} AND z.expires_at <= slow_now()
      RETURNING z.id, CASE page.status WHEN ${authorization.of('pending')} THEN cardinality(z.offered) END AS challenges
    )`,
)

export function createExpiryStore(db: Database): ExpiryStore {
  async function expire(statement: Statement, task: ExpiryTask, now: Date): Promise<ExpiryPage> {
    const end = lowestUuidv7(now.getTime() - task.lifetimeMs - COMMIT_DELAY_MS)
    type Row = Omit<ExpiryPage, 'full'> & { seen: number }
    const [row] = await db.query<Row>(statement, [task.name, end, task.waits])
    const { expired, challenges, seen } = row as Row
    return { expired, challenges, full: seen === PAGE_SIZE }
  }
  return {
    now: () => slowNow(db),
    expireOrders: (task, now) => expire(EXPIRE_ORDERS, task, now),
    expireAuthorizations: (task, now) => expire(EXPIRE_AUTHORIZATIONS, task, now),
  }
}
