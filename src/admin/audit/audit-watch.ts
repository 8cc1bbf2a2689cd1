/**
 * Watches the end of the audit log while the service runs.
 *
 * The chain alone cannot tell that its tail was cut together with its head. So the last entry that
 * this thread has written or seen is remembered, and must still be there.
 */

import type { DatabasePool } from 'slonik'
import { type NotedHead, tailFault } from '../../domain/audit-chain.ts'
import { readAuditTail } from './audit-store.ts'

export interface AuditWatchEvents {
  /** Once, until it is there again. */
  missing(fault: string): void
  /** As after a restored backup. */
  found(): void
}

interface AuditWatchOptions {
  db: DatabasePool
  key: Buffer
  events: AuditWatchEvents
}

export class AuditWatch {
  readonly #options: AuditWatchOptions
  #remembered: NotedHead | undefined
  #isMissing = false

  constructor(options: AuditWatchOptions) {
    this.#options = options
  }

  /** After the commit of an entry. */
  remember(head: NotedHead): void {
    if (!this.#isMissing && head.sequence > (this.#remembered?.sequence ?? 0)) this.#remembered = head
  }

  /** @returns the head of this moment */
  async look(): Promise<NotedHead> {
    const { db, key, events } = this.#options
    const remembered = this.#remembered
    const tail = await readAuditTail(db, remembered?.sequence ?? 0)
    const fault = tailFault(remembered, tail, key)
    if (fault !== undefined && !this.#isMissing) {
      this.#isMissing = true
      events.missing(fault)
    }
    if (fault === undefined && this.#isMissing) {
      this.#isMissing = false
      events.found()
    }
    this.remember(tail.head)
    return tail.head
  }
}
