/** Checks the chain of the audit log, on one snapshot. */

import type { DatabasePool } from 'slonik'
import { AuditCheck, type AuditVerdict, type NotedHead } from '../../domain/audit-verdict.ts'
import { beginSnapshot, readAuditChain, readAuditCheckpoint } from '../../store/admin/audit-store.ts'

const PAGE = 2_000

export function verifyAuditLog(db: DatabasePool, key: Buffer, noted: readonly NotedHead[]): Promise<AuditVerdict> {
  return db.transaction(async (tx) => {
    await beginSnapshot(tx)
    const { head, cut } = await readAuditCheckpoint(tx)
    const check = new AuditCheck({ key, head, cut, noted })
    let after = cut.sequence
    for (;;) {
      const entries = await readAuditChain(tx, { after, limit: PAGE })
      for (const entry of entries) check.add(entry)
      if (entries.length < PAGE) return check.verdict()
      after = entries.at(-1)?.sequence ?? after
    }
  })
}
