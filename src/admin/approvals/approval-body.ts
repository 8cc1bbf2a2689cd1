/** A request for approval as the Admin API shows it. */

import * as z from 'zod/v4'
import { APPROVAL_ACTS, APPROVAL_STATUSES, approvalStatus } from '../../domain/approval.ts'
import { time, timeOrNull, timestamp } from '../schemas.ts'
import type { ApprovalRow } from './approval-store.ts'

export const Approval = z
  .strictObject({
    id: z.uuid(),
    act: z.enum(APPROVAL_ACTS),
    operation: z.string().meta({ description: 'operationId of what was asked.' }),
    summary: z.string(),
    facts: z
      .array(z.strictObject({ name: z.string(), before: z.string().nullable(), after: z.string().nullable() }))
      .meta({ description: 'What would change.' }),
    most: z.int().nullable().meta({ description: 'More things at the time of the decision are refused.' }),
    reason: z.string(),
    status: z.enum(APPROVAL_STATUSES),
    maker_id: z.uuid(),
    maker: z.string(),
    created_at: timestamp(),
    expires_at: timestamp(),
    decided_at: timestamp().nullable(),
    decided_by: z.string().nullable(),
    decision_reason: z.string().nullable(),
    has_result: z.boolean().meta({ description: 'The reply waits for its maker, until expires_at.' }),
  })
  .meta({ id: 'Approval' })

export const ApprovedRequest = z
  .strictObject({
    ...Approval.shape,
    password_second_half: z.string().nullable().meta({
      description: 'Of the password that was made. Shown once; its maker gets the first half, the user both.',
    }),
  })
  .meta({ id: 'ApprovedRequest' })

export const approvalBody = (row: ApprovalRow, now = new Date()): z.input<typeof Approval> => ({
  id: row.id,
  act: row.act,
  operation: row.operation,
  summary: row.summary,
  facts: row.facts,
  most: row.most,
  reason: row.reason,
  status: approvalStatus({ decision: row.decision ?? undefined, expiresAt: row.expires_at }, now),
  maker_id: row.maker_id,
  maker: row.maker.username,
  created_at: time(row.created_at),
  expires_at: time(row.expires_at),
  decided_at: timeOrNull(row.decided_at),
  decided_by: row.decided_by,
  decision_reason: row.decision_reason,
  has_result: row.has_result,
})

/** In place of the reply of an act that waits for another person. */
export const APPROVAL_REPLY = { status: 202, schema: Approval } as const
