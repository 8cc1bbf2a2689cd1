/** The audit log: whether its newest entries are those that were written, under the key that is configured. */

import { AuditCheck, cutSeal } from '../../domain/audit-chain.ts'
import { auditKeyOf } from '../../settings/admin-settings.ts'
import type { Check } from '../check.ts'
import { AUDIT_ENTRIES, type DiagnosisRows } from '../diagnosis-store.ts'
import { failure, ok, type Verdict } from '../verdict.ts'

export const AUDIT: readonly Check[] = [
  {
    id: 'database.audit',
    title: 'The newest entries of the audit log are whole',
    async look(sources) {
      const key = auditKeyOf(sources.config)
      return key && judgeAuditLog(await sources.read('auditEntries'), key)
    },
  },
]

/** @param rows the newest first */
export function judgeAuditLog(rows: DiagnosisRows['auditEntries'], key: Buffer): Verdict {
  const [{ head, headMac, cut, cutMac, cutSeal: seal } = rows[0]!] = rows
  const entries = rows.flatMap((row) => (row.id === null ? [] : [{ ...row, id: row.id }])).toReversed()
  const before = entries.length > AUDIT_ENTRIES ? entries.shift() : undefined
  const check = new AuditCheck({
    key,
    head: { sequence: head, mac: headMac },
    cut: before
      ? { ...before, seal: cutSeal(key, before.sequence, before.mac) }
      : { sequence: cut, mac: cutMac, seal: seal ?? undefined },
    noted: [],
  })
  for (const entry of entries) check.add(entry)
  const { faults } = check.verdict()
  if (faults.length === 0)
    return ok(
      `${before ? 'the newest ' : 'all '}${entries.length} entries are${before ? '; chancery -c FILE audit verify looks at all' : ''}`,
    )
  return failure(
    `it is not: ${faults.slice(0, 3).join('; ')}`,
    'chancery -c FILE audit verify names all; a key that was lost is in the backup: admin_api.audit_key_file, else token_secret',
  )
}
