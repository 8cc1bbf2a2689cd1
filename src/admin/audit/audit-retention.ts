/**
 * Deletes old entries of the audit log, up to a checkpoint under the chain's key.
 *
 * The cut and its own entry are one transaction; the rows go afterwards, page by page. A round that
 * is interrupted is finished by the next.
 */

import type { DatabasePool } from 'slonik'
import type { Actor } from '../../domain/administrator.ts'
import { cutSeal } from '../../domain/audit-chain.ts'
import type { AuditLog } from './audit-log.ts'
import { deleteCutEntries, findAuditCut, lockAuditHead, moveAuditCut, readAuditCheckpoint } from './audit-store.ts'

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
