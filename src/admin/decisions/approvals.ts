/** What was decided about a request for approval is not decided again; what an approved act did has decisions of its own. */

import * as z from 'zod/v4'
import type { Decision as Verdict } from '../../domain/approval.ts'
import { lockApproval, noteDecision, takeResult } from '../approvals/approval-store.ts'
import { type Restore, restoredIf, restoring } from './restore.ts'

const Request = z.object({ approval_id: z.string(), reason: z.string().optional() })

const decided = (decision: Verdict): Restore =>
  restoring(Request, async (tx, { approval_id: id, reason }, { by, entry }) => {
    const request = await lockApproval(tx, id)
    if (request?.decision !== null) return 'overtaken'
    await noteDecision(tx, id, { decision, by: { userId: entry?.user_id ?? undefined, username: by }, reason })
    return 'restored'
  })

export const APPROVAL_RESTORES = {
  'approval.approve': decided('approved'),
  'approval.reject': decided('rejected'),
  'approval.withdraw': decided('withdrawn'),
  // The reply was shown once.
  'approval.collect': restoring(Request, async (tx, { approval_id: id }) => {
    const request = await lockApproval(tx, id)
    return restoredIf(request?.has_result === true && (await takeResult(tx, id)) !== null)
  }),
}
