/** Exports of the audit log: all that fits a filter, page by page. */

import type { DatabasePool } from 'slonik'
import type { Actor } from '../../domain/administrator.ts'
import type { AuditQuery } from '../resources/operation.ts'
import { requireAuthority } from '../users/sessions.ts'
import type { AuditLog } from './audit-log.ts'
import { endOfSearch, readAuditCheckpoint, readAuditLines } from './audit-store.ts'

/** Some 130 KB. */
const EXPORT_PAGE = 500
/** Rests behind a page, as a multiple of its time: longer on a busy machine, where its time is others' time. */
const REST = 15
const MOST_REST_MS = 1_000

export class AuditExports {
  readonly #db: DatabasePool
  readonly #audit: AuditLog
  /** Settles when the next page may be read. */
  #turn = Promise.resolve()

  constructor(db: DatabasePool, audit: AuditLog) {
    this.#db = db
    this.#audit = audit
  }

  /**
   * Reads the entries that exist at the first read, in texts of many lines. Between them it holds no connection.
   * @throws AdminError unauthorized, forbidden as soon as the author may no longer read on
   */
  async *read(author: Actor, filter: AuditQuery): AsyncGenerator<string> {
    const { head } = await readAuditCheckpoint(this.#db)
    await this.#audit.record(author, 'audit.export', { filters: filter })
    let before = head.sequence + 1
    for (;;) {
      const page = { before, limit: EXPORT_PAGE }
      await requireAuthority(this.#db, author)
      const { lines, entries, last } = await this.#inTurn(() => readAuditLines(this.#db, filter, page))
      if (lines !== undefined) yield lines
      const next = entries < EXPORT_PAGE ? await endOfSearch(this.#db, filter, before) : last
      if (next === undefined) return
      before = next
    }
  }

  /** One after the other, with rests, so that all exports together cost little. */
  async #inTurn<T>(read: () => Promise<T>): Promise<T> {
    const turn = this.#turn
    let pass = (): void => undefined
    this.#turn = new Promise((resolve) => (pass = resolve))
    await turn
    const startedAt = performance.now()
    try {
      return await read()
    } finally {
      setTimeout(pass, Math.min(REST * (performance.now() - startedAt), MOST_REST_MS))
    }
  }
}
