/** What the admin thread does for the audit log without being asked: its head in the log, and retention. */

import type { Logger } from 'pino'
import { type Loop, startLoop } from '../background/loop.ts'
import { renderHead } from '../domain/audit-verdict.ts'
import { AuditLog } from '../services/admin/audit-log.ts'
import { AuditRetention } from '../services/admin/audit-retention.ts'
import { readAuditCheckpoint } from '../store/admin/audit-store.ts'
import type { DatabasePool } from '../store/slonik.ts'

const HEAD_INTERVAL_MS = 60_000

export class AuditUpkeep {
  readonly #retention: AuditRetention
  readonly #heads: Loop

  constructor({ db, key, log }: { db: DatabasePool; key: Buffer; log: Logger }) {
    this.#retention = new AuditRetention({ db, key, audit: new AuditLog(db, key) })
    // An intruder can cut the tail of the table and move its head, but not the heads in the log.
    this.#heads = startLoop({
      name: 'audit_head',
      intervalMs: HEAD_INTERVAL_MS,
      async round() {
        const { head } = await readAuditCheckpoint(db)
        log.info({ event: 'audit_head', head: renderHead(head) }, 'head of the audit log')
      },
      onError: (_name, error) => log.warn({ err: error }, 'the head of the audit log cannot be read'),
    })
  }

  /** @returns the number of deleted entries */
  cut(before: Date): Promise<number> {
    return this.#retention.cut(before)
  }

  stop(): Promise<void> {
    return this.#heads.stop()
  }
}
