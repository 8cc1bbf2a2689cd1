/** Reads the audit log: a page, or all of it. */

import type { DatabasePool } from 'slonik'
import type { Actor } from '../../domain/administrator.ts'
import {
  type AuditFilter,
  readAuditCheckpoint,
  readAuditPage,
  type StoredAuditEntry,
} from '../../store/admin/audit-store.ts'
import type { AuditLog } from './audit-log.ts'

const EXPORT_PAGE = 1_000

export class AuditReader {
  readonly #db: DatabasePool
  readonly #audit: AuditLog

  constructor(db: DatabasePool, audit: AuditLog) {
    this.#db = db
    this.#audit = audit
  }

  /**
   * Newest first.
   * @param before undefined for the first page
   * @returns `next` for the next page; undefined on the last
   */
  async page(filter: AuditFilter, before: number | undefined, limit: number) {
    const page = { before: before ?? Number.MAX_SAFE_INTEGER, limit: limit + 1 }
    const found = await readAuditPage(this.#db, filter, page)
    const entries = found.slice(0, limit)
    return { entries, next: found.length > limit ? entries.at(-1)?.sequence : undefined }
  }

  /** What was there at the first read. Between pages it holds no connection. */
  async *export(author: Actor, filter: AuditFilter): AsyncGenerator<StoredAuditEntry> {
    const { head } = await readAuditCheckpoint(this.#db)
    const { action, userId: user_id, since, until } = filter
    await this.#audit.record(author, 'audit.export', { filters: { action, user_id, since, until } })
    let before = head.sequence + 1
    for (;;) {
      const entries = await readAuditPage(this.#db, filter, { before, limit: EXPORT_PAGE })
      yield* entries
      const last = entries.at(-1)
      if (!last || entries.length < EXPORT_PAGE) return
      before = last.sequence
    }
  }
}
