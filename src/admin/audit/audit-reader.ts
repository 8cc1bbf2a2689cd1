/** Reads the audit log: a page, or all of it. */

import type { DatabasePool } from 'slonik'
import type { Actor } from '../../domain/administrator.ts'
import { requireAuthority } from '../users/authority.ts'
import type { AuditLog } from './audit-log.ts'
import { type AuditFilter, readAuditCheckpoint, readAuditLines, readAuditPage } from './audit-store.ts'

/** Some 130 KB. */
const EXPORT_PAGE = 500
/** Rests behind a page, as a multiple of its time: longer on a busy machine, where its time is others' time. */
const REST = 15
const MOST_REST_MS = 1_000

export class AuditReader {
  readonly #db: DatabasePool
  readonly #audit: AuditLog
  /** When the next page of an export may be read. */
  #exportTurn = Promise.resolve()

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

  /**
   * What was there at the first read, in texts of many lines. Between them it holds no connection.
   * @throws AdminError unauthorized, forbidden as soon as the author may no longer read on
   */
  async *export(author: Actor, filter: AuditFilter): AsyncGenerator<string> {
    const { head } = await readAuditCheckpoint(this.#db)
    const { action, userId: user_id, ipAddress: ip_address, since, until } = filter
    await this.#audit.record(author, 'audit.export', { filters: { action, user_id, ip_address, since, until } })
    let before = head.sequence + 1
    for (;;) {
      const page = { before, limit: EXPORT_PAGE }
      await requireAuthority(this.#db, author)
      const { lines, entries, last } = await this.#inTurn(() => readAuditLines(this.#db, filter, page))
      if (lines !== undefined) yield lines
      if (entries < EXPORT_PAGE) return
      before = last
    }
  }

  /** One after the other, with rests, so that all exports together cost little. */
  async #inTurn<T>(read: () => Promise<T>): Promise<T> {
    const turn = this.#exportTurn
    let pass = (): void => undefined
    this.#exportTurn = new Promise((resolve) => (pass = resolve))
    await turn
    const startedAt = performance.now()
    try {
      return await read()
    } finally {
      setTimeout(pass, Math.min(REST * (performance.now() - startedAt), MOST_REST_MS))
    }
  }
}
