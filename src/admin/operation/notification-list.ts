/** SQL of the mails that administrators see, retry and purge. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { NEVER_SENT, NOTIFICATION_STATUSES, type NotificationStatus } from '../../domain/notification.ts'
import { lowestUuidv7 } from '../../shared/lib/uuid.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import type { OffsetPage } from '../pages.ts'

const Listed = z.object({
  id: z.string(),
  notification_type: z.string(),
  recipient: z.string(),
  subject: z.string(),
  status: z.enum(NOTIFICATION_STATUSES),
  account_id: z.string().nullable(),
  error_detail: z.string().nullable(),
  retry_count: z.int(),
  created_at: z.date(),
  sent_at: z.date().nullable(),
})
export type ListedNotification = z.infer<typeof Listed>
const WithBody = Listed.extend({ body_text: z.string(), body_html: z.string() })
type NotificationWithBody = z.infer<typeof WithBody>

/** An error without addresses, and cut: it is the same for all recipients. */
const cause = sql.fragment`left(regexp_replace(coalesce(error_detail, ''), '<?[^[:space:]<>]+@[^[:space:]<>]+>?', '…', 'g'), 200)`

/** Failed mails of one type and one cause. */
export interface CauseFilter {
  type: string
  cause: string
}

/** Mails that are recorded and never sent have the status, too, and nobody has to do anything about them. */
const hasFailed = sql.fragment`status = 'failed' AND notification_type <> ${NEVER_SENT}`

interface NotificationFilter {
  status: NotificationStatus | undefined
  ofCause: CauseFilter | undefined
}

const isOfCause = ({ type, cause: text }: CauseFilter) =>
  sql.fragment`status = 'failed' AND notification_type = ${type} AND ${cause} = ${text}`

/** The newest first. */
export function listNotifications(
  db: CommonQueryMethods,
  { status, ofCause }: NotificationFilter,
  { limit, offset }: OffsetPage,
): Promise<readonly ListedNotification[]> {
  const other = status ? sql.fragment`status = ${status}` : sql.fragment`true`
  const ofStatus = status === 'failed' ? hasFailed : other
  const condition = ofCause ? sql.fragment`${ofStatus} AND ${isOfCause(ofCause)}` : ofStatus
  return db.any(rowsOf(Listed)`
    SELECT id, notification_type, recipient, subject, status, account_id, error_detail, retry_count, created_at, sent_at
      FROM notifications WHERE ${condition} ORDER BY id DESC LIMIT ${limit} OFFSET ${offset}`)
}

export function findNotification(db: CommonQueryMethods, id: string): Promise<NotificationWithBody | null> {
  return db.maybeOne(rowsOf(WithBody)`
    SELECT id, notification_type, recipient, subject, status, account_id, error_detail, retry_count, created_at, sent_at,
           body_text, body_html
      FROM notifications WHERE id = ${id}`)
}

/** These failed mails are queued again: the named ones, all of one cause, or all. */
export interface RetrySelection {
  ids?: readonly string[] | undefined
  ofCause?: CauseFilter | undefined
}

/** Queues failed ones again, but for those that are recorded only. @returns how many */
export async function requeueFailed(tx: CommonQueryMethods, { ids, ofCause }: RetrySelection): Promise<number> {
  const these = ids ? sql.fragment`AND id = ANY (${sql.array([...ids], 'uuid')})` : sql.fragment``
  const same = ofCause ? sql.fragment`AND ${isOfCause(ofCause)}` : sql.fragment``
  const { rowCount } = await tx.query(rowsOf(z.object({}))`
    UPDATE notifications SET status = 'pending', retry_count = 0, due_at = now(), error_detail = NULL
     WHERE ${hasFailed} ${these} ${same}
       AND (claimed_by IS NULL OR claimed_by NOT IN (SELECT live_instances()))`)
  return rowCount
}

/** Deletes a page of sent and failed ones older than this. @returns how many */
export async function purgePage(tx: CommonQueryMethods, before: Date, limit: number): Promise<number> {
  const { rowCount } = await tx.query(rowsOf(z.object({}))`
    DELETE FROM notifications WHERE id IN (
      SELECT id FROM notifications
       WHERE status IN ('sent', 'failed') AND id < ${lowestUuidv7(before.getTime())} LIMIT ${limit})`)
  return rowCount
}

const Cause = z.object({
  notification_type: z.string(),
  cause: z.string(),
  notifications: z.int(),
  recipients: z.int(),
  last_at: z.date(),
})

/** Failed mails that are looked at, the newest first. */
const MOST_GROUPED = 10_000

/** Why mails have failed, the commonest cause first. notifications_status, from its end. */
export function listCauses(db: CommonQueryMethods, limit: number) {
  return db.any(rowsOf(Cause)`
    SELECT notification_type, ${cause} AS cause, count(*)::integer AS notifications,
           count(DISTINCT recipient)::integer AS recipients, max(created_at) AS last_at
      FROM (SELECT * FROM notifications WHERE ${hasFailed} ORDER BY id DESC LIMIT ${MOST_GROUPED}) n
     GROUP BY notification_type, cause ORDER BY notifications DESC, last_at DESC LIMIT ${limit}`)
}
