/** SQL of notifications: recording, and claims of the mailer. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { COUNTED_APART, type NotificationType, type TEST_MAIL } from '../domain/notification.ts'
import { CLOCKS_DIFFER_MS } from '../shared/lib/clocks.ts'
import { lowestUuidv7 } from '../shared/lib/uuid.ts'
import { columnsOf, rowsOf, sql } from './slonik.ts'

const None = z.object({})
const Id = z.object({ id: z.string() })
const Count = z.object({ rows: z.int() })

export interface NewNotification {
  id: string
  type: NotificationType | typeof TEST_MAIL
  recipient: string
  subject: string
  text: string
  html: string
  accountId: string | undefined
  /** When the event was; undefined for what is recorded only. */
  dueAt: Date | undefined
  /** Why it is recorded only. */
  error: string | undefined
  messageId: string
}

export async function insertNotifications(tx: CommonQueryMethods, added: readonly NewNotification[]): Promise<void> {
  const column = columnsOf(added)
  await tx.query(rowsOf(None)`
    INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, account_id, due_at,
                               error_detail, message_id, status)
    SELECT *, CASE WHEN due_at IS NULL THEN 'failed' ELSE 'pending' END FROM unnest(
      ${column(({ id }) => id, 'uuid')}, ${column(({ type }) => type, 'text')},
      ${column(({ recipient }) => recipient, 'text')}, ${column(({ subject }) => subject, 'text')},
      ${column(({ text }) => text, 'text')}, ${column(({ html }) => html, 'text')},
      ${column(({ accountId }) => accountId ?? null, 'uuid')},
      ${column(({ dueAt }) => dueAt?.toISOString() ?? null, 'timestamptz')},
      ${column(({ error }) => error ?? null, 'text')}, ${column(({ messageId }) => messageId, 'text')}
    ) AS n (id, type, recipient, subject, text, html, account_id, due_at, error, message_id)`)
}

const Holder = z.object({ id: z.string(), contacts: z.array(z.string()), revoked_kid: z.string().nullable() })
export type Holder = z.infer<typeof Holder>

/** Whom to write to for each account, and the credential whose revocation may have ended it. */
export async function findHolders(tx: CommonQueryMethods, accountIds: readonly string[]): Promise<Map<string, Holder>> {
  const rows = await tx.any(rowsOf(Holder)`
    SELECT a.id, a.contacts, CASE WHEN e.revoked THEN e.kid END AS revoked_kid
      FROM accounts a LEFT JOIN eab_credentials e ON e.id = a.eab_credential_id
     WHERE a.id = ANY (${sql.array([...accountIds], 'uuid')})`)
  return new Map(rows.map((row) => [row.id, row]))
}

/** What was written while a clock was ahead does not count until that time comes. */
const isLately = (since: Date) =>
  sql.fragment`id BETWEEN ${lowestUuidv7(since.getTime())} AND ${lowestUuidv7(Date.now() + CLOCKS_DIFFER_MS)}`

/** How many of a limited type went to a recipient of the account lately; without an account, to anybody. */
export async function countLately(
  tx: CommonQueryMethods,
  { accountId, type, recipient }: Pick<NewNotification, 'accountId' | 'type' | 'recipient'>,
  since: Date,
): Promise<number> {
  const subject = accountId
    ? sql.fragment`account_id = ${accountId} AND recipient = ${recipient}`
    : sql.fragment`account_id IS NULL`
  // The predicate of the index notifications_limited; what is rare reads the primary key from that time on.
  const isClients =
    type === 'revocation_failed'
      ? sql.fragment``
      : sql.fragment`AND notification_type IN ('order_quota_exceeded', 'order_rejected', 'csr_validation_failed',
                                               'challenge_failed', 'registration_failed')`
  const { rows } = await tx.one(rowsOf(Count)`
    SELECT count(*)::integer AS rows FROM notifications
     WHERE ${subject} AND notification_type = ${type} AND ${isLately(since)} ${isClients}`)
  return rows
}

const Share = z.object({ recipient: z.string(), mails: z.int() })

/** Counts recent mails by recipient, in lower case. Kinds that are counted apart are left out. */
export async function countToRecipients(
  tx: CommonQueryMethods,
  recipients: readonly string[],
  since: Date,
): Promise<Map<string, number>> {
  // notifications_recipient
  const rows = await tx.any(rowsOf(Share)`
    SELECT lower(recipient) AS recipient, count(*)::integer AS mails FROM notifications
     WHERE lower(recipient) = ANY (${sql.array([...recipients], 'text')}) AND ${isLately(since)}
       AND notification_type <> ALL (${sql.array([...COUNTED_APART], 'text')})
     GROUP BY lower(recipient)`)
  return new Map(rows.map(({ recipient, mails }) => [recipient, mails]))
}

const ToAccount = z.object({ account_id: z.string(), recipient: z.string(), mails: z.int() })

/** Counts recent mails of a type by account and recipient, in lower case. */
export function countToAccounts(
  db: CommonQueryMethods,
  { type, recipients, since }: { type: NotificationType; recipients: readonly string[]; since: Date },
): Promise<readonly z.infer<typeof ToAccount>[]> {
  // notifications_recipient
  return db.any(rowsOf(ToAccount)`
    SELECT account_id, lower(recipient) AS recipient, count(*)::integer AS mails FROM notifications
     WHERE lower(recipient) = ANY (${columnsOf(recipients)((one) => one.toLowerCase(), 'text')})
       AND ${isLately(since)} AND notification_type = ${type} AND account_id IS NOT NULL
     GROUP BY account_id, lower(recipient)`)
}

const Claimed = z.object({
  id: z.string(),
  recipient: z.string(),
  subject: z.string(),
  body_text: z.string(),
  body_html: z.string(),
  retry_count: z.int(),
  message_id: z.string(),
})
export type ClaimedNotification = z.infer<typeof Claimed>

interface Claim {
  instanceId: number
  status: 'pending' | 'failed'
  limit: number
  /** Longest wait before a retry. */
  maxDelayMs: number
}

/**
 * Takes rows that are due for an instance, and claims of instances that are gone. The instance has none in hand: a claim of
 * its own is of a replaced thread or of an earlier state of the database.
 */
export function claimNotifications(
  db: CommonQueryMethods,
  { instanceId, status, limit, maxDelayMs }: Claim,
): Promise<readonly ClaimedNotification[]> {
  // Only a retry waits, and never longer than this: a later time was written while the clock of the database was ahead.
  const isDue =
    status === 'pending'
      ? sql.fragment`due_at IS NOT NULL`
      : sql.fragment`(due_at <= now() OR due_at > now() + make_interval(secs => ${maxDelayMs / 1000}))`
  return db.any(rowsOf(Claimed)`
    WITH next AS (
      SELECT id FROM notifications
       WHERE status = ${status} AND ${isDue}
         AND (claimed_by IS NULL OR claimed_by = ${instanceId} OR claimed_by NOT IN (SELECT live_instances()))
       ORDER BY due_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
    )
    UPDATE notifications n SET claimed_by = ${instanceId} FROM next WHERE n.id = next.id
    RETURNING n.id, n.recipient, n.subject, n.body_text, n.body_html, n.retry_count, n.message_id`)
}

/** These were claimed and not tried. */
export async function releaseNotifications(
  db: CommonQueryMethods,
  instanceId: number,
  ids: readonly string[],
): Promise<void> {
  await db.query(rowsOf(None)`
    UPDATE notifications SET claimed_by = NULL
     WHERE due_at IS NOT NULL AND claimed_by = ${instanceId} AND id = ANY (${sql.array([...ids], 'uuid')})`)
}

export async function markSent(db: CommonQueryMethods, ids: readonly string[]): Promise<void> {
  await db.query(rowsOf(None)`
    WITH sent AS (
      UPDATE notifications SET status = 'sent', sent_at = now(), due_at = NULL, claimed_by = NULL, error_detail = NULL
       WHERE id = ANY (${sql.array([...ids], 'uuid')}))
    INSERT INTO mail_attempts (sent_at) VALUES (now())
    ON CONFLICT (one) DO UPDATE SET sent_at = excluded.sent_at, failing_since = NULL`)
}

/** @param delayMs before the next attempt; undefined when there will be none */
export async function markFailed(
  db: CommonQueryMethods,
  id: string,
  { error, delayMs }: { error: string; delayMs: number | undefined },
): Promise<void> {
  await db.query(rowsOf(None)`
    WITH failed AS (
      UPDATE notifications
         SET status = 'failed', retry_count = retry_count + 1, claimed_by = NULL, error_detail = ${error},
             due_at = now() + make_interval(secs => ${delayMs === undefined ? null : delayMs / 1000})
       WHERE id = ${id})
    INSERT INTO mail_attempts AS m (failed_at, failing_since, error) VALUES (now(), now(), ${error})
    ON CONFLICT (one) DO UPDATE
       SET failed_at = excluded.failed_at, failing_since = coalesce(m.failing_since, excluded.failing_since),
           error = excluded.error`)
}

/** Fails what has waited longer than `hours`, a page at a time. @returns how many */
export async function failOverdue(
  db: CommonQueryMethods,
  { hours, error, limit }: { hours: number; error: string; limit: number },
): Promise<number> {
  const rows = await db.any(rowsOf(Id)`
    WITH overdue AS (
      SELECT id FROM notifications
       WHERE status = 'pending' AND due_at < now() - make_interval(hours => ${hours})
       ORDER BY due_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
    )
    UPDATE notifications n SET status = 'failed', due_at = NULL, claimed_by = NULL, error_detail = ${error}
      FROM overdue WHERE n.id = overdue.id RETURNING n.id`)
  return rows.length
}
