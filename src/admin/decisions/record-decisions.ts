/** The recorder of decisions, as the audit log calls it. */

import { AdminError } from '../../domain/admin-error.ts'
import type { Decision } from '../../domain/decision.ts'
import { NotRecorded } from '../../services/decisions/decision-recorder.ts'
import type { RecordDecisions } from '../audit/audit-log.ts'

/** @param note resolves to why they are in no second place */
export function recordThrough(note: (decisions: readonly Decision[]) => Promise<string | undefined>): RecordDecisions {
  return async (decisions) => {
    const reason = await note(decisions).catch((error: Error) => new NotRecorded(error.message).message)
    if (reason !== undefined) throw new AdminError('unavailable', reason)
  }
}
