/** `/notifications`: what was mailed, and another attempt. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { NEVER_SENT, NOTIFICATION_STATUSES, type NotificationStatus } from '../../domain/notification.ts'
import { lowestUuidv7 } from '../../shared/lib/uuid.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { ADMINS, endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { type OffsetPage, offsetParameters, readByOffset } from '../pages.ts'
import { time, timeOrNull, timestamp, uuid } from '../schemas.ts'

const Notification = z
  .strictObject({
    id: z.uuid(),
    notification_type: z.string(),
    recipient: z.string(),
    subject: z.string(),
    status: z.enum(NOTIFICATION_STATUSES),
    account_id: z.uuid().nullable(),
    error_detail: z.string().nullable(),
    retry_count: z.int(),
    created_at: timestamp(),
    sent_at: timestamp().nullable(),
  })
  .meta({ id: 'Notification' })

const NotificationWithBody = z
  .strictObject({ ...Notification.shape, body_text: z.string(), body_html: z.string() })
  .meta({ id: 'NotificationWithBody' })

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
type ListedNotification = z.infer<typeof Listed>
const WithBody = Listed.extend({ body_text: z.string(), body_html: z.string() })
type NotificationWithBody = z.infer<typeof WithBody>

const notificationBody = <R extends ListedNotification>(row: R) => ({
  ...row,
  created_at: time(row.created_at),
  sent_at: timeOrNull(row.sent_at),
})

export const NOTIFICATIONS = endpointGroup('Notifications', {
  listNotifications: endpoint({
    route: 'GET /notifications',
    roles: ADMINS,
    summary: 'Lists notifications, the newest first.',
    query: z.strictObject({ status: z.enum(NOTIFICATION_STATUSES).optional(), ...offsetParameters() }),
    reply: { status: 200, schema: z.array(Notification) },
    async handle({ query: { status, ...place } }, { db, pages }) {
      const { rows, next } = await readByOffset(place, pages, (page) => listNotifications(db, status, page))
      return { body: rows.map(notificationBody), next }
    },
  }),
  getNotification: endpoint({
    route: 'GET /notifications/{notification_id}',
    roles: ADMINS,
    summary: 'Shows one notification with its body.',
    params: z.strictObject({ notification_id: uuid() }),
    reply: { status: 200, schema: NotificationWithBody },
    errors: ['not_found'],
    async handle({ params }, { db }) {
      const found = await findNotification(db, params.notification_id)
      if (!found) throw notFound('notification')
      return { body: notificationBody(found) }
    },
  }),
  retryNotifications: endpoint({
    route: 'POST /notifications/retry',
    roles: ADMINS,
    summary: 'Queues all failed notifications again.',
    reply: { status: 200, schema: z.strictObject({ retried: z.int() }) },
    audit: 'notification.retry',
    handle: async ({ author }, { audit }) => ({ body: { retried: await retryNotifications(audit, author) } }),
  }),
  purgeNotifications: endpoint({
    route: 'POST /notifications/purge',
    roles: ADMINS,
    summary: 'Deletes notifications that were sent or have failed and are older than so many days.',
    body: z.strictObject({ days: z.int().min(1).max(36_500).default(30) }),
    bodyIsOptional: true,
    reply: { status: 200, schema: z.strictObject({ purged: z.int() }) },
    audit: 'notification.purge',
    handle: async ({ author, body }, { audit }) => ({
      body: { purged: await purgeNotifications(audit, author, body.days) },
    }),
  }),
})

/** Queues all failed ones again. @returns how many */
function retryNotifications(audit: AuditLog, actor: Actor): Promise<number> {
  return audit.transaction(actor, async (tx, note) => {
    const retried = await requeueFailed(tx)
    if (retried > 0) note('notification.retry', { retried })
    return retried
  })
}

/** A transaction that deletes millions of rows would hold up the clean-up of all tables. */
const PURGED_AT_ONCE = 5_000
const DAY_MS = 86_400_000

/**
 * Deletes what was sent or has failed, and is older than so many days; an entry for each page.
 * @returns how many
 */
async function purgeNotifications(audit: AuditLog, actor: Actor, days: number): Promise<number> {
  const before = new Date(Date.now() - days * DAY_MS)
  let total = 0
  for (let page = PURGED_AT_ONCE; page === PURGED_AT_ONCE; total += page)
    page = await audit.transaction(actor, async (tx, note) => {
      const purged = await purgePage(tx, before, PURGED_AT_ONCE)
      if (purged > 0) note('notification.purge', { days, purged })
      return purged
    })
  return total
}

/** The newest first. */
function listNotifications(
  db: CommonQueryMethods,
  status: NotificationStatus | undefined,
  { limit, offset }: OffsetPage,
): Promise<readonly ListedNotification[]> {
  const ofStatus = status ? sql.fragment`WHERE status = ${status}` : sql.fragment``
  return db.any(rowsOf(Listed)`
    SELECT id, notification_type, recipient, subject, status, account_id, error_detail, retry_count, created_at, sent_at
      FROM notifications ${ofStatus} ORDER BY id DESC LIMIT ${limit} OFFSET ${offset}`)
}

function findNotification(db: CommonQueryMethods, id: string): Promise<NotificationWithBody | null> {
  return db.maybeOne(rowsOf(WithBody)`
    SELECT id, notification_type, recipient, subject, status, account_id, error_detail, retry_count, created_at, sent_at,
           body_text, body_html
      FROM notifications WHERE id = ${id}`)
}

/** Queues all failed ones again, but for those that are recorded only. @returns how many */
async function requeueFailed(tx: CommonQueryMethods): Promise<number> {
  const { rowCount } = await tx.query(rowsOf(z.object({}))`
    UPDATE notifications SET status = 'pending', retry_count = 0, due_at = now(), error_detail = NULL
     WHERE status = 'failed' AND notification_type <> ${NEVER_SENT}
       AND (claimed_by IS NULL OR claimed_by NOT IN (SELECT live_instances()))`)
  return rowCount
}

/** Deletes a page of sent and failed ones older than this. @returns how many */
async function purgePage(tx: CommonQueryMethods, before: Date, limit: number): Promise<number> {
  const { rowCount } = await tx.query(rowsOf(z.object({}))`
    DELETE FROM notifications WHERE id IN (
      SELECT id FROM notifications
       WHERE status IN ('sent', 'failed') AND id < ${lowestUuidv7(before.getTime())} LIMIT ${limit})`)
  return rowCount
}
