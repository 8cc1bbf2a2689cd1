/** How mail and the consumers of events are: what went last, and what failed last. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { rowsOf } from '../../store/slonik.ts'
import { time } from '../schemas.ts'

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

/** What the mail server answered last, to a new mail or to a repeated one. Before its first attempt, a release has no row. */
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
