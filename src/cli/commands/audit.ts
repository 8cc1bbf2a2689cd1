/** `chancery audit verify`: whether the audit log of the administration is whole. */

import type { Config } from '../../config/schema.ts'
import { type NotedHead, renderHead } from '../../domain/audit-verdict.ts'
import { verifyAuditLog } from '../../services/admin/audit-verification.ts'
import { requireAuditKey } from '../../settings/admin.ts'
import { withAdministration } from './administration.ts'

/** Exit code 1 when it is not. */
export async function verifyAudit(
  config: Config,
  { head: noted, json }: { head: NotedHead | undefined; json: boolean },
): Promise<number> {
  const key = requireAuditKey(config)
  const verdict = await withAdministration(config, ({ db }) => verifyAuditLog(db, key, noted))
  const { entries, head, cutSequence, faults } = verdict
  const isWhole = faults.length === 0
  if (json)
    console.log(
      JSON.stringify({ whole: isWhole, entries, head: renderHead(head), cut_sequence: cutSequence, faults }, null, 2),
    )
  else {
    for (const fault of faults) console.error(fault)
    const cut = cutSequence === 0 ? '' : `; retention has cut it at ${cutSequence}`
    console.log(`${isWhole ? 'the audit log is whole' : 'the audit log is NOT whole'}: ${entries} entries${cut}`)
    console.log(`head  ${renderHead(head)}`)
  }
  return isWhole ? 0 : 1
}
