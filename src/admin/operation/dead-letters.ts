/** Deliveries of events that failed for good: seen, and sent again under the same event id. */

import type { DatabasePool } from 'slonik'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { type DeadLetterRow, listDeadLetters, reviveDeadLetter } from '../../store/event-store.ts'
import type { AuditLog } from '../audit/audit-log.ts'

export class DeadLetters {
  readonly #db: DatabasePool
  readonly #audit: AuditLog

  constructor(db: DatabasePool, audit: AuditLog) {
    this.#db = db
    this.#audit = audit
  }

  list(limit: number, offset: number): Promise<readonly DeadLetterRow[]> {
    return listDeadLetters(this.#db, limit, offset)
  }

  /** @throws AdminError not_found; conflict when no instance has its consumer any more */
  retry(author: Actor, id: string): Promise<void> {
    return this.#audit.transaction(author, async (tx, note) => {
      const isRevived = await reviveDeadLetter(tx, id)
      if (isRevived === null) throw notFound('dead letter')
      if (!isRevived) throw new AdminError('conflict', 'its consumer is not configured on any instance')
      note('event.retry', { dead_letter_id: id })
    })
  }
}
