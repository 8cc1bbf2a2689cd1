/**
 * Both ends of the audit log while the service runs: its end is watched, and retention cuts its beginning.
 *
 * The chain alone cannot tell that its tail was cut together with its head. So the last entry that
 * this thread has written or seen is remembered, and must still be there.
 *
 * Retention deletes old entries up to a checkpoint under the chain's key. The cut and its own entry are one transaction;
 * the rows go afterwards, page by page. A round that is interrupted is finished by the next.
 */

import type { DatabasePool } from 'slonik'
import type { Actor } from '../../domain/administrator.ts'
import { auditMac, cutSeal, isSameMac, type NotedHead, tailFault } from '../../domain/audit-chain.ts'
import type { AuditLog } from './audit-log.ts'
import {
  deleteCutEntries,
  findAuditCut,
  lockAuditHead,
  moveAuditCut,
  readAuditChain,
  readAuditCheckpoint,
  readAuditPage,
  readAuditTail,
} from './audit-store.ts'

export interface AuditWatchEvents {
  /** Called once until the end is there again. It waits for the entry of a reconciliation. */
  missing(fault: string): void
  /** The end is there again, or the log went back with its database. @param wentBack what is missing, in the second case */
  found(wentBack: string | undefined): void
}

/** Half a minute: a reconciliation begins within seconds of a fail-over. */
const LOOKS_BEFORE_ALARM = 6
const NEWEST = 500
const RECONCILED = 'database.reconcile'

interface AuditWatchOptions {
  db: DatabasePool
  key: Buffer
  events: AuditWatchEvents
}

export class AuditWatch {
  readonly #options: AuditWatchOptions
  #remembered: NotedHead | undefined
  /** Entries of reconciliations while the log was whole, newest first. Instances have clocks of their own, so no time counts. */
  #seen: readonly NotedHead[] | undefined
  /** Looks in a row that found a fault. */
  #faulty = 0

  constructor(options: AuditWatchOptions) {
    this.#options = options
  }

  /** After the commit of an entry. */
  remember(head: NotedHead): void {
    if (this.#faulty > 0) return
    if (head.sequence > (this.#remembered?.sequence ?? 0)) this.#remembered = head
  }

  /** @returns the head of this moment */
  async look(): Promise<NotedHead> {
    const { db, key, events } = this.#options
    const remembered = this.#remembered
    // Before the tail: one that comes after a fail-over meanwhile was not seen in the log of before.
    const { entries } = await readAuditPage(db, { action: RECONCILED }, undefined, NEWEST)
    const tail = await readAuditTail(db, remembered?.sequence ?? 0)
    const fault = tailFault(remembered, tail, key)
    const hasGoneBack = fault !== undefined && (await this.#hasGoneBack(tail.head.sequence))
    if (fault === undefined || hasGoneBack) {
      if (this.#faulty > 0) events.found(fault)
      this.#faulty = 0
      this.#seen = entries.map(({ sequence, mac }) => ({ sequence, mac }))
      if (hasGoneBack) this.#remembered = undefined
    } else if (++this.#faulty === LOOKS_BEFORE_ALARM) events.missing(fault)
    this.remember(tail.head)
    return tail.head
  }

  /** Looks for a new entry, made with the key, that the database was behind its signer. That explains the missing end. */
  async #hasGoneBack(head: number): Promise<boolean> {
    const { db, key } = this.#options
    const entries = await readAuditChain(db, { after: Math.max(0, head - NEWEST), limit: NEWEST })
    return entries.some((entry, at) => {
      const before = entries[at - 1]
      if (!before || entry.action !== RECONCILED || !this.#isUnseen(entry)) return false
      return isSameMac(entry.mac, auditMac(key, before.mac, entry))
    })
  }

  /** What is older than a full memory may have been seen. */
  #isUnseen({ sequence, mac }: NotedHead): boolean {
    const oldest = this.#seen?.[NEWEST - 1]?.sequence ?? 0
    return sequence > oldest && (this.#seen?.every((one) => !one.mac.equals(mac)) ?? false)
  }
}

interface AuditRetentionResources {
  db: DatabasePool
  audit: AuditLog
  key: Buffer
}

const PAGE = 2_000

const RETENTION: Actor = { userId: undefined, username: 'retention', role: 'admin', ipAddress: undefined }

/** @returns the number of deleted entries */
export async function cutAuditLog(resources: AuditRetentionResources, before: Date): Promise<number> {
  await moveCut(resources, before)
  let total = 0
  for (;;) {
    const deleted = await resources.db.transaction((tx) => deleteCutEntries(tx, PAGE))
    total += deleted
    if (deleted < PAGE) return total
  }
}

function moveCut({ audit, key }: AuditRetentionResources, before: Date): Promise<void> {
  return audit.transaction(RETENTION, async (tx, note) => {
    await lockAuditHead(tx)
    const { cut: former } = await readAuditCheckpoint(tx)
    const cut = await findAuditCut(tx, before)
    if (!cut || cut.sequence <= former.sequence) return
    await moveAuditCut(tx, cut, cutSeal(key, cut.sequence, cut.mac))
    note('audit.cut', { entries: cut.sequence - former.sequence, last_sequence: cut.sequence, before })
  })
}
