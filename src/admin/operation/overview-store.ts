/** SQL of the overview: one statement, each number along an index and up to a bound. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { NEVER_SENT, type NotificationStatus } from '../../domain/notification.ts'
import { rowsOf, sql } from '../../store/slonik.ts'

/** Thresholds of certificates that expire, in days. */
export const EXPIRY_DAYS = [1, 7, 14, 30] as const

/** Each number is counted up to this. */
export const MOST_COUNTED = 10_000

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
  now: z.date(),
})
export type OverviewNumbers = z.infer<typeof Numbers>

const endingWithin = (days: number) =>
  sql.fragment`(count(*) FILTER (WHERE revoked_at IS NULL AND not_after < now() + make_interval(days => ${days})))::integer`

/** certificates_not_after, crl_changes, authorizations_validating, notifications_status, event_dead_letters_age. */
export function readOverviewNumbers(db: CommonQueryMethods): Promise<OverviewNumbers> {
  const longest = EXPIRY_DAYS.at(-1) as number
  return db.one(rowsOf(Numbers)`
    SELECT now() AS now, e.expiring, e.counted_until, v.validations, v.oldest_validation_seconds,
           (SELECT coalesce(sum(changes), 0)::integer FROM crl_changes) AS revoked,
           (SELECT count(*)::integer FROM (
             SELECT FROM notifications WHERE status = ${WAITING} LIMIT ${MOST_COUNTED}) n) AS notifications_waiting,
           (SELECT count(*)::integer FROM (
             SELECT FROM notifications WHERE status = ${FAILED} AND notification_type <> ${NEVER_SENT}
              LIMIT ${MOST_COUNTED}) n) AS notifications_failed,
           (SELECT count(*)::integer FROM (
             SELECT FROM event_dead_letters LIMIT ${MOST_COUNTED}) d) AS dead_letters
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
