/** `/notifications`: what was mailed, and another attempt. */

import { z } from 'zod/v4'
import { NOTIFICATION_STATUSES } from '../../domain/notification.ts'
import type { ListedNotification } from '../../store/notification-store.ts'
import { ADMINS, endpoint, endpointGroup } from '../endpoint.ts'
import { limitOf, limitParameter, offsetPage, offsetParameter, requireNear } from '../pages.ts'
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
    query: z.strictObject({
      status: z.enum(NOTIFICATION_STATUSES).optional(),
      limit: limitParameter(),
      offset: offsetParameter(),
    }),
    reply: { status: 200, schema: z.array(Notification) },
    async handle({ query: { status, limit: wanted, offset } }, { notifications, pages }) {
      requireNear(offset)
      const limit = limitOf(wanted, pages)
      const { rows, next } = offsetPage(await notifications.page(status, limit + 1, offset), limit, offset)
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
    handle: async ({ params }, { notifications }) => ({
      body: notificationBody(await notifications.find(params.notification_id)),
    }),
  }),
  retryNotifications: endpoint({
    route: 'POST /notifications/retry',
    roles: ADMINS,
    summary: 'Queues all failed notifications again.',
    reply: { status: 200, schema: z.strictObject({ retried: z.int() }) },
    audit: 'notification.retry',
    handle: async ({ author }, { notifications }) => ({ body: { retried: await notifications.retry(author) } }),
  }),
  purgeNotifications: endpoint({
    route: 'POST /notifications/purge',
    roles: ADMINS,
    summary: 'Deletes notifications that were sent or have failed and are older than so many days.',
    body: z.strictObject({ days: z.int().min(1).max(36_500).default(30) }),
    bodyIsOptional: true,
    reply: { status: 200, schema: z.strictObject({ purged: z.int() }) },
    audit: 'notification.purge',
    handle: async ({ author, body }, { notifications }) => ({
      body: { purged: await notifications.purge(author, body.days) },
    }),
  }),
})
