/** Notifications as administrators see them: the list, another attempt, deletion. */

import type { DatabasePool } from 'slonik'
import { notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import type { NotificationStatus } from '../../domain/notification.ts'
import {
  findNotification,
  type ListedNotification,
  listNotifications,
  type NotificationWithBody,
  purgeNotifications,
  requeueFailed,
} from '../../store/notification-store.ts'
import type { AuditLog } from '../audit/audit-log.ts'

/** A transaction that deletes millions of rows would hold up the clean-up of all tables. */
const PURGED_AT_ONCE = 5_000
const DAY_MS = 86_400_000

export class NotificationList {
  readonly #db: DatabasePool
  readonly #audit: AuditLog

  constructor(db: DatabasePool, audit: AuditLog) {
    this.#db = db
    this.#audit = audit
  }

  /** The newest first. */
  page(status: NotificationStatus | undefined, limit: number, offset: number): Promise<readonly ListedNotification[]> {
    return listNotifications(this.#db, { status, limit, offset })
  }

  async find(id: string): Promise<NotificationWithBody> {
    return (await findNotification(this.#db, id)) ?? Promise.reject(notFound('notification'))
  }

  /** Queues all failed ones again. @returns how many */
  retry(actor: Actor): Promise<number> {
    return this.#audit.transaction(actor, async (tx, note) => {
      const retried = await requeueFailed(tx)
      if (retried > 0) note('notification.retry', { retried })
      return retried
    })
  }

  /**
   * Deletes what was sent or has failed, and is older than so many days; an entry for each page.
   * @returns how many
   */
  async purge(actor: Actor, days: number): Promise<number> {
    const before = new Date(Date.now() - days * DAY_MS)
    let total = 0
    for (let page = PURGED_AT_ONCE; page === PURGED_AT_ONCE; total += page)
      page = await this.#audit.transaction(actor, async (tx, note) => {
        const purged = await purgeNotifications(tx, before, PURGED_AT_ONCE)
        if (purged > 0) note('notification.purge', { days, purged })
        return purged
      })
    return total
  }
}
