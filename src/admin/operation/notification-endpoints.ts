/** `/notifications`: what was mailed, and another attempt. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import {
  NEVER_SENT,
  NOTIFICATION_STATUSES,
  NOTIFICATION_TYPES,
  type NotificationStatus,
} from '../../domain/notification.ts'
import { boundedArray } from '../../shared/lib/bounded.ts'
import { lowestUuidv7 } from '../../shared/lib/uuid.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { findUser } from '../../store/user-store.ts'
import { ADMINS, endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import type { AdminContext } from '../context.ts'
import { type OffsetPage, offsetParameters, readByOffset } from '../pages.ts'
import { text, time, timeOrNull, timestamp, uuid, whenSound } from '../schemas.ts'

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

const MOST_GROUPED = 10_000
const MOST_GROUPS = 100
const NotificationGroup = z
  .strictObject({
    notification_type: z.string(),
    error_detail: z.string(),
    notifications: z.int(),
    recipients: z.int().meta({ description: 'Different ones.' }),
    newest_at: timestamp(),
  })
  .meta({ id: 'NotificationGroup' })

/** Rows that a page shows, and more. */
const MOST_CHOSEN = 1_000
const Retried = z
  .strictObject({
    ids: boundedArray(uuid(), MOST_CHOSEN, 1).optional(),
    group: z
      .strictObject({ notification_type: z.enum(NOTIFICATION_TYPES), error_detail: text(1_000) })
      .optional()
      .meta({ description: 'As listNotificationGroups shows it.' }),
  })
  .refine(({ ids, group }) => ids === undefined || group === undefined, {
    error: "stands alone, without 'group'",
    when: whenSound,
    path: ['ids'],
  })
type Retried = z.output<typeof Retried>

const MailTest = z
  .strictObject({
    recipient: z.string(),
    accepted: z.boolean().meta({ description: 'The mail server has taken the mail.' }),
    error: z.string().nullable().meta({ description: 'What it answered, or why there was no answer.' }),
  })
  .meta({ id: 'MailTest' })

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
  listNotificationGroups: endpoint({
    route: 'GET /notification-groups',
    roles: ADMINS,
    summary: `Shows failed notifications by type and error: of the last ${MOST_GROUPED}, the largest groups first.`,
    reply: { status: 200, schema: z.array(NotificationGroup) },
    handle: async (_request, { db }) => ({
      body: (await listGroups(db)).map((group) => ({ ...group, newest_at: time(group.newest_at) })),
    }),
  }),
  testMail: endpoint({
    route: 'POST /notifications/test',
    roles: ADMINS,
    summary: "Mails a test to the caller's own address and says what the mail server answered.",
    reply: { status: 200, schema: MailTest },
    errors: ['conflict'],
    audit: 'notification.test',
    handle: async ({ author }, context) => ({ body: await testMail(context, author) }),
  }),
  retryNotifications: endpoint({
    route: 'POST /notifications/retry',
    roles: ADMINS,
    summary: 'Queues failed notifications again: all, some, or those of one type and error.',
    body: Retried,
    bodyIsOptional: true,
    reply: { status: 200, schema: z.strictObject({ retried: z.int() }) },
    audit: 'notification.retry',
    handle: async ({ author, body }, { audit }) => ({
      body: { retried: await retryNotifications(audit, author, body) },
    }),
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

/** Queues failed ones again. @returns how many */
function retryNotifications(audit: AuditLog, actor: Actor, chosen: Retried): Promise<number> {
  return audit.transaction(actor, async (tx, note) => {
    const retried = await requeueFailed(tx, chosen)
    // An error may quote an address, and the audit log outlives the notification.
    if (retried > 0) note('notification.retry', { retried, notification_type: chosen.group?.notification_type })
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

/** Those that are recorded only stay. @returns how many */
async function requeueFailed(tx: CommonQueryMethods, { ids, group }: Retried): Promise<number> {
  const these = ids ? sql.fragment`AND id = ANY (${sql.array(ids, 'uuid')})` : sql.fragment``
  const alike = group
    ? sql.fragment`AND notification_type = ${group.notification_type}
                   AND coalesce(error_detail, '') = ${group.error_detail}`
    : sql.fragment``
  const { rowCount } = await tx.query(rowsOf(z.object({}))`
    UPDATE notifications SET status = 'pending', retry_count = 0, due_at = now(), error_detail = NULL
     WHERE status = 'failed' AND notification_type <> ${NEVER_SENT}
       AND (claimed_by IS NULL OR claimed_by NOT IN (SELECT live_instances())) ${these} ${alike}`)
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

const Group = z.object({
  notification_type: z.string(),
  error_detail: z.string(),
  notifications: z.int(),
  recipients: z.int(),
  newest_at: z.date(),
})

/** notifications_status */
function listGroups(db: CommonQueryMethods) {
  return db.any(rowsOf(Group)`
    SELECT notification_type, coalesce(error_detail, '') AS error_detail, count(*)::integer AS notifications,
           count(DISTINCT lower(recipient))::integer AS recipients, max(created_at) AS newest_at
      FROM (SELECT notification_type, error_detail, recipient, created_at FROM notifications
             WHERE status = 'failed' ORDER BY id DESC LIMIT ${MOST_GROUPED}) failed
     GROUP BY 1, 2 ORDER BY 3 DESC, 5 DESC LIMIT ${MOST_GROUPS}`)
}

/** The entry is written first: a mail cannot be taken back. @throws AdminError conflict where there is nobody to mail */
async function testMail({ db, audit, mail }: AdminContext, author: Actor): Promise<z.input<typeof MailTest>> {
  const user = author.userId === undefined ? null : await findUser(db, author.userId)
  if (!user) throw new AdminError('conflict', 'the command line has no mail address; use: chancery mail test')
  if (!mail.isEnabled) throw new AdminError('conflict', 'smtp.enabled is false: no mail is sent')
  await audit.record(author, 'notification.test')
  const error = await mail.sendTest(user.email).then(
    () => null,
    (cause: Error) => cause.message,
  )
  return { recipient: user.email, accepted: error === null, error }
}
