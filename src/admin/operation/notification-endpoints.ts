/** `/notifications`: what was mailed, and another attempt; with the SQL that lists, retries and purges mails. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { requireFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { NEVER_SENT, NOTIFICATION_STATUSES, type NotificationStatus, TEST_MAIL } from '../../domain/notification.ts'
import { boundedArray } from '../../shared/lib/bounded.ts'
import { lowestUuidv7, uuidv7 } from '../../shared/lib/uuid.ts'
import { insertNotifications } from '../../store/notification-store.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { accountNameMember, withAccountName, withAccountNames } from '../certificates/account-list.ts'
import type { AdminContext } from '../context.ts'
import { limitOf, limitParameter, type OffsetPage, offsetParameters, readByOffset } from '../pages.ts'
import { pick } from '../resources/filter.ts'
import { NOTIFICATION_FILTERS } from '../resources/operation.ts'
import { parametersOf, rowOf, timestamp, uuid, whenSound, withTimes } from '../schemas.ts'
import type { SignedIn } from '../users/sign-in.ts'
import { requireUser } from '../users/users.ts'

const Notification = z
  .strictObject({
    id: z.uuid(),
    notification_type: z.string(),
    recipient: z.string(),
    subject: z.string(),
    status: z.enum(NOTIFICATION_STATUSES),
    account_id: z.uuid().nullable(),
    account_name: accountNameMember(),
    error_detail: z.string().nullable(),
    retry_count: z.int(),
    created_at: timestamp(),
    sent_at: timestamp().nullable(),
  })
  .meta({ id: 'Notification' })

const NotificationWithBody = z
  .strictObject({ ...Notification.shape, body_text: z.string(), body_html: z.string() })
  .meta({ id: 'NotificationWithBody' })

const NotificationCause = z
  .strictObject({
    notification_type: z.string(),
    cause: z.string().meta({ description: 'The error without addresses, at most 200 characters.' }),
    notifications: z.int().meta({ description: 'Of the 10,000 that failed last.' }),
    recipients: z.int(),
    last_at: timestamp(),
  })
  .meta({ id: 'NotificationCause' })

const TestMail = z
  .strictObject({
    recipient: z.string(),
    status: z.enum(NOTIFICATION_STATUSES).meta({
      description: 'sent: the mail server has taken it. pending: nobody has sent it within 15 seconds.',
    }),
    error: z.string().nullable(),
  })
  .meta({ id: 'TestMail' })

/** A page of the console. */
const MOST_CHOSEN = 2_000
const ofCause = parametersOf(pick(NOTIFICATION_FILTERS, ['notification_type', 'cause']))
type OfCause = { notification_type?: string | undefined; cause?: string | undefined }
const isWhole = ({ notification_type: type, cause }: OfCause) => (type === undefined) === (cause === undefined)
const BOTH = {
  error: "must have 'notification_type' and 'cause' together, as /notifications/causes has them",
  when: whenSound,
}
const causeOf = ({ notification_type: type, cause }: OfCause) =>
  type === undefined || cause === undefined ? undefined : { type, cause }

export const NOTIFICATIONS = endpointGroup('Notifications', {
  listNotifications: endpoint({
    route: 'GET /notifications',
    permission: 'operate',
    query: z.strictObject({ ...parametersOf(NOTIFICATION_FILTERS), ...offsetParameters() }).refine(isWhole, BOTH),
    reply: { status: 200, schema: z.array(Notification) },
    async handle({ query: { status, notification_type, cause, ...place } }, { db, pages }) {
      const filter = { status, ofCause: causeOf({ notification_type, cause }) }
      const { rows, next } = await readByOffset(place, pages, (page) => listNotifications(db, filter, page))
      return { body: (await withAccountNames(db, rows)).map(withTimes), next }
    },
  }),
  getNotification: endpoint({
    route: 'GET /notifications/{notification_id}',
    permission: 'operate',
    params: z.strictObject({ notification_id: uuid() }),
    reply: { status: 200, schema: NotificationWithBody },
    async handle({ params }, { db }) {
      const found = requireFound(await findNotification(db, params.notification_id), 'notification')
      return { body: withTimes(await withAccountName(db, found)) }
    },
  }),
  retryNotifications: endpoint({
    route: 'POST /notifications/retry',
    permission: 'operate',
    body: z.strictObject({ ids: boundedArray(uuid(), MOST_CHOSEN, 1).optional(), ...ofCause }).refine(isWhole, BOTH),
    bodyIsOptional: true,
    reply: { status: 200, schema: z.strictObject({ retried: z.int() }) },
    audit: 'notification.retry',
    async handle({ body: { ids, ...cause }, author }, { audit }) {
      return { body: { retried: await retryNotifications(audit, author, { ids, ofCause: causeOf(cause) }) } }
    },
  }),
  listNotificationCauses: endpoint({
    route: 'GET /notifications/causes',
    permission: 'operate',
    query: z.strictObject({ limit: limitParameter() }),
    reply: { status: 200, schema: z.array(NotificationCause) },
    handle: async ({ query }, { db, pages }) => ({
      body: (await listCauses(db, limitOf(query.limit, pages))).map(withTimes),
    }),
  }),
  sendTestMail: endpoint({
    route: 'POST /notifications/test',
    permission: 'operate',
    reply: { status: 200, schema: TestMail },
    audit: 'notification.test',
    handle: async ({ author }, context) => ({ body: await sendTestMail(context, author) }),
  }),
  purgeNotifications: endpoint({
    route: 'POST /notifications/purge',
    permission: 'operate',
    body: z.strictObject({ days: z.int().min(1).max(36_500).default(30) }),
    bodyIsOptional: true,
    reply: { status: 200, schema: z.strictObject({ purged: z.int() }) },
    audit: 'notification.purge',
    handle: async ({ author, body }, { audit }) => ({
      body: { purged: await purgeNotifications(audit, author, body.days) },
    }),
  }),
})

/** @returns how many */
function retryNotifications(audit: AuditLog, actor: Actor, selection: RetrySelection): Promise<number> {
  return audit.transaction(actor, async (tx, note) => {
    const retried = await requeueFailed(tx, selection)
    if (retried > 0) note('notification.retry', { retried, ...selection.ofCause })
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

/** The mailer looks every second; a mail server may take some more for its greeting. */
const WAIT_MS = 15_000
const LOOK_MS = 250

const TEXT = 'This is a test mail of Chancery. It was sent because you asked for it in the console or by the Admin API.'

/** Records a mail to the author, and waits until the mailer has tried it. */
async function sendTestMail({ db, audit, baseUrl }: AdminContext, author: SignedIn) {
  const { email: recipient } = await requireUser(db, author.userId)
  const id = uuidv7(Date.now())
  await audit.transaction(author, async (tx, note) => {
    await insertNotifications(tx, [
      {
        id,
        recipient,
        type: TEST_MAIL,
        subject: 'Test mail',
        text: TEXT,
        html: `<p>${TEXT}</p>`,
        accountId: undefined,
        dueAt: new Date(),
        error: undefined,
        messageId: `<${id}@${new URL(baseUrl).hostname}>`,
      },
    ])
    note('notification.test', { recipient })
  })
  const deadline = Date.now() + WAIT_MS
  for (;;) {
    const found = await findNotification(db, id)
    if (found?.status !== 'pending' || Date.now() >= deadline)
      return { recipient, status: found?.status ?? 'pending', error: found?.error_detail ?? null }
    await sleep(LOOK_MS)
  }
}

const Listed = rowOf(Notification.omit({ account_name: true }))
type ListedNotification = z.infer<typeof Listed>
const WithBody = rowOf(NotificationWithBody.omit({ account_name: true }))
type NotificationWithBody = z.infer<typeof WithBody>

const columns = sql.fragment`
  id, notification_type, recipient, subject, status, account_id, error_detail, retry_count, created_at, sent_at`

/** An error without addresses, and cut: it is the same for all recipients. */
const cause = sql.fragment`left(regexp_replace(coalesce(error_detail, ''), '<?[^[:space:]<>]+@[^[:space:]<>]+>?', '…', 'g'), 200)`

/** Failed mails of one type and one cause. */
interface CauseFilter {
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
function listNotifications(
  db: CommonQueryMethods,
  { status, ofCause }: NotificationFilter,
  { limit, offset }: OffsetPage,
): Promise<readonly ListedNotification[]> {
  const other = status ? sql.fragment`status = ${status}` : sql.fragment`true`
  const ofStatus = status === 'failed' ? hasFailed : other
  const condition = ofCause ? sql.fragment`${ofStatus} AND ${isOfCause(ofCause)}` : ofStatus
  return db.any(rowsOf(Listed)`
    SELECT ${columns} FROM notifications WHERE ${condition} ORDER BY id DESC LIMIT ${limit} OFFSET ${offset}`)
}

function findNotification(db: CommonQueryMethods, id: string): Promise<NotificationWithBody | null> {
  return db.maybeOne(rowsOf(WithBody)`
    SELECT ${columns}, body_text, body_html FROM notifications WHERE id = ${id}`)
}

/** These failed mails are queued again: the named ones, all of one cause, or all. */
interface RetrySelection {
  ids?: readonly string[] | undefined
  ofCause?: CauseFilter | undefined
}

/** Queues failed ones again, but for those that are recorded only. @returns how many */
async function requeueFailed(tx: CommonQueryMethods, { ids, ofCause }: RetrySelection): Promise<number> {
  const these = ids ? sql.fragment`AND id = ANY (${sql.array([...ids], 'uuid')})` : sql.fragment``
  const same = ofCause ? sql.fragment`AND ${isOfCause(ofCause)}` : sql.fragment``
  const { rowCount } = await tx.query(rowsOf(z.object({}))`
    UPDATE notifications SET status = 'pending', retry_count = 0, due_at = now(), error_detail = NULL
     WHERE ${hasFailed} ${these} ${same}
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

const Cause = rowOf(NotificationCause)

/** Failed mails that are looked at, the newest first. */
const MOST_GROUPED = 10_000

/** Why mails have failed, the commonest cause first. notifications_status, from its end. */
function listCauses(db: CommonQueryMethods, limit: number) {
  return db.any(rowsOf(Cause)`
    SELECT notification_type, ${cause} AS cause, count(*)::integer AS notifications,
           count(DISTINCT recipient)::integer AS recipients, max(created_at) AS last_at
      FROM (SELECT * FROM notifications WHERE ${hasFailed} ORDER BY id DESC LIMIT ${MOST_GROUPED}) n
     GROUP BY notification_type, cause ORDER BY notifications DESC, last_at DESC LIMIT ${limit}`)
}
