/** Deletes old notifications, and old marks of warnings of expiry, a page at a time. */

import { lowestUuidv7 } from '../shared/lib/uuid.ts'
import type { Database, Statement } from './database.ts'

const PAGE_SIZE = 1_000

const NOTIFICATIONS: Statement = {
  name: 'retention-notifications',
  // notifications_pkey, whose order is that of time.
  text: `
    WITH gone AS (
      DELETE FROM notifications WHERE id IN (SELECT id FROM notifications WHERE id < $1 ORDER BY id LIMIT ${PAGE_SIZE})
      RETURNING 1
    )
    SELECT count(*)::integer AS deleted FROM gone`,
}

const NOTICES: Statement = {
  name: 'retention-expiration-notices',
  // expiration_notices_age
  text: `
    WITH gone AS (
      DELETE FROM expiration_notices WHERE (certificate_id, warning_days) IN (
        SELECT certificate_id, warning_days FROM expiration_notices WHERE noticed_at < $1
         ORDER BY noticed_at LIMIT ${PAGE_SIZE})
      RETURNING 1
    )
    SELECT count(*)::integer AS deleted FROM gone`,
}

export interface NoticeAges {
  notificationMs: number
  noticeMs: number
}

/** @returns how many rows were deleted */
export async function deleteOldNotices(
  db: Pick<Database, 'query'>,
  { notificationMs, noticeMs }: NoticeAges,
  isStopping: () => boolean,
): Promise<number> {
  const now = Date.now()
  let total = 0
  for (const [statement, value] of [
    [NOTIFICATIONS, lowestUuidv7(now - notificationMs)],
    [NOTICES, new Date(now - noticeMs)],
  ] as const) {
    for (let deleted = PAGE_SIZE; deleted === PAGE_SIZE && !isStopping(); total += deleted)
      deleted = (await db.query<{ deleted: number }>(statement, [value]))[0]?.deleted ?? 0
  }
  return total
}
