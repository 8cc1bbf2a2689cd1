/** SQL of the overview: its numbers are one statement, each along an index and up to a bound; and what mail and consumers did last. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { OPEN_OUTCOMES } from '../../domain/decision.ts'
import { NEVER_SENT, type NotificationStatus } from '../../domain/notification.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { EXPIRY_DAYS } from '../certificates/expiry-endpoints.ts'
import { time } from '../schemas.ts'

/** Each number is counted up to this. */
export const MOST_COUNTED = 10_000
export const HOURS = 24

const WAITING: NotificationStatus = 'pending'
const FAILED: NotificationStatus = 'failed'

const Numbers = z.object({
  /** Unrevoked certificates that end within `EXPIRY_DAYS`, in that order. */
  expiring: z.array(z.int()),
  /** The end of the last certificate that was counted; null when all were. */
  counted_until: z.date().nullable(),
  revoked: z.int(),
  validations: z.int(),
  oldest_validation_seconds: z.int(),
  notifications_waiting: z.int(),
  notifications_failed: z.int(),
  dead_letters: z.int(),
  failures_kept: z.int(),
  behind_since: z.date().nullable(),
  lost_decisions: z.int(),
  first_hour: z.date(),
  now: z.date(),
})
export type OverviewNumbers = z.infer<typeof Numbers>

/** Events are counted by the hour. */
const FIRST_HOUR = sql.fragment`(date_trunc('hour', now(), 'UTC') - make_interval(hours => ${HOURS - 1}))`

const endingWithin = (days: number) =>
  sql.fragment`(count(*) FILTER (WHERE revoked_at IS NULL AND not_after < now() + make_interval(days => ${days})))::integer`

/** certificates_not_after, crl_changes, authorizations_validating, notifications_status, event_dead_letters_age, account_failures_time. */
export function readOverviewNumbers(db: CommonQueryMethods): Promise<OverviewNumbers> {
  const longest = EXPIRY_DAYS.at(-1) as number
  return db.one(rowsOf(Numbers)`
    SELECT now() AS now, ${FIRST_HOUR} AS first_hour, (SELECT min(behind_since) FROM signer_marks) AS behind_since, e.expiring, e.counted_until, v.validations, v.oldest_validation_seconds,
           (SELECT coalesce(sum(changes), 0)::integer FROM crl_changes) AS revoked,
           (SELECT count(*)::integer FROM (
             SELECT FROM notifications WHERE status = ${WAITING} LIMIT ${MOST_COUNTED}) n) AS notifications_waiting,
           (SELECT count(*)::integer FROM (
             SELECT FROM notifications WHERE status = ${FAILED} AND notification_type <> ${NEVER_SENT}
              LIMIT ${MOST_COUNTED}) n) AS notifications_failed,
           (SELECT count(*)::integer FROM (
             SELECT FROM event_dead_letters LIMIT ${MOST_COUNTED}) d) AS dead_letters,
           (SELECT count(*)::integer FROM (
             SELECT FROM account_failures
              WHERE occurred_at >= ${FIRST_HOUR}
              LIMIT ${MOST_COUNTED}) f) AS failures_kept,
           (SELECT count(*)::integer FROM (
             SELECT FROM lost_decisions WHERE outcome = ANY (${sql.array(OPEN_OUTCOMES, 'text')}) AND accepted_at IS NULL
              LIMIT ${MOST_COUNTED}) l) AS lost_decisions
      FROM (SELECT ARRAY[${sql.join(EXPIRY_DAYS.map(endingWithin), sql.fragment`, `)}] AS expiring,
                   CASE WHEN count(*) = ${MOST_COUNTED} THEN max(not_after) END AS counted_until
              FROM (SELECT not_after, revoked_at FROM certificates
                     WHERE not_after > now() AND not_after < now() + make_interval(days => ${longest})
                     ORDER BY not_after LIMIT ${MOST_COUNTED}) c) e,
           (SELECT count(*)::integer AS validations,
                   greatest(0, coalesce(extract(epoch FROM now() - min(validating_since)), 0))::integer
                     AS oldest_validation_seconds
              FROM (SELECT validating_since FROM authorizations
                     WHERE validating_by IS NOT NULL LIMIT ${MOST_COUNTED}) a) v`)
}

const failure = ({ at, error }: { at: Date; error: string }) => ({ at: time(at), error })

const Mail = z
  .object({
    sent_at: z.date().nullable(),
    failed_at: z.date().nullable(),
    failing_since: z.date().nullable(),
    error: z.string().nullable(),
  })
  .transform(({ failed_at, error, ...mail }) => ({
    ...mail,
    failure: failed_at && failure({ at: failed_at, error: error ?? '' }),
  }))

/**
 * Reads what the mail server answered last, to a new mail or to a repeated one. Before its first attempt, a release has no
 * row.
 */
export function readLastMail(db: CommonQueryMethods) {
  // notifications_status, from its end
  return db.one(rowsOf(Mail)`
    SELECT coalesce(m.sent_at, (SELECT n.sent_at FROM notifications n WHERE status = 'sent' ORDER BY id DESC LIMIT 1)) AS sent_at,
           m.failed_at, m.failing_since, m.error
      FROM (SELECT) one LEFT JOIN mail_attempts m ON true`)
}

const DeadLetter = z
  .object({ consumer: z.string(), at: z.date(), error: z.string() })
  .transform(({ consumer, ...last }) => ({ consumer, failure: failure(last) }))

/** More than a service has consumers. */
const MOST_LOOKED_AT = 1_000

/** The last undelivered event of each consumer. event_dead_letters_age, from its end. */
export function readLastDeadLetters(db: CommonQueryMethods) {
  return db.any(rowsOf(DeadLetter)`
    SELECT DISTINCT ON (consumer) consumer, failed_at AS at, left(error, 200) AS error
      FROM (SELECT consumer, failed_at, error FROM event_dead_letters
             ORDER BY failed_at DESC LIMIT ${MOST_LOOKED_AT}) d
     ORDER BY consumer, failed_at DESC`)
}
