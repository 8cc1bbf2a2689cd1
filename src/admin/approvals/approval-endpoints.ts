/** `/approvals`: acts that wait for another person's decision. */

import * as z from 'zod/v4'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { placeParameters, readByCursor } from '../pages.ts'
import { APPROVAL_FILTERS } from '../resources/operation.ts'
import { line, parametersOf, uuid } from '../schemas.ts'
import { Approval, ApprovedRequest, approvalBody, countApprovals, pagesOfApprovals } from './approval-store.ts'
import { makerSeenBy } from './approvals.ts'

const params = z.strictObject({ approval_id: uuid() })
const MOST_OF_A_REASON = 500

export const APPROVALS = endpointGroup('Approvals', {
  listApprovals: endpoint({
    route: 'GET /approvals',
    permission: 'use_session',
    query: z.strictObject({ ...parametersOf(APPROVAL_FILTERS), ...placeParameters() }),
    reply: { status: 200, schema: z.array(Approval) },
    async handle({ query: { waiting, ...place }, author }, { db, pages }) {
      const wanted = { waiting, makerId: makerSeenBy(author) }
      const { rows, next } = await readByCursor(place, pages, pagesOfApprovals(db, wanted))
      return { body: rows.map((row) => approvalBody(row)), next }
    },
  }),
  countApprovals: endpoint({
    route: 'GET /approvals/count',
    permission: 'use_session',
    reply: {
      status: 200,
      schema: z.strictObject({ for_others: z.int(), own: z.int(), results: z.int() }).meta({
        description:
          'Made by other users (0 for a registrar), made by this user, and replies that this user has not collected.',
      }),
    },
    handle: async ({ author }, { db }) => ({ body: await countApprovals(db, author.userId, makerSeenBy(author)) }),
  }),
  getApproval: endpoint({
    route: 'GET /approvals/{approval_id}',
    permission: 'use_session',
    params,
    reply: { status: 200, schema: Approval },
    handle: async ({ params, author }, { db, approvals }) => ({
      body: approvalBody(await approvals.require(db, params.approval_id, makerSeenBy(author))),
    }),
  }),
  getApprovalRequest: endpoint({
    route: 'GET /approvals/{approval_id}/request',
    permission: 'use_session',
    params,
    reply: {
      status: 200,
      schema: z.strictObject({
        operation: z.string(),
        params: z.record(z.string(), z.string()),
        query: z.string(),
        body: z.unknown(),
      }),
    },
    async handle({ params, author }, { approvals }) {
      const { operation, input } = await approvals.input(params.approval_id, makerSeenBy(author))
      return { body: { operation, ...input, body: input.body ?? null } }
    },
  }),
  approve: endpoint({
    route: 'POST /approvals/{approval_id}/approve',
    permission: 'operate',
    needsSession: true,
    recentSignIn: true,
    params,
    reply: { status: 200, schema: ApprovedRequest },
    errors: ['conflict'],
    audit: 'approval.approve',
    async handle({ params, author }, { approvals }) {
      const { row, half = null } = await approvals.approve(author, params.approval_id)
      return { body: { ...approvalBody(row), password_second_half: half } }
    },
  }),
  reject: endpoint({
    route: 'POST /approvals/{approval_id}/reject',
    permission: 'operate',
    needsSession: true,
    params,
    body: z.strictObject({ reason: line(MOST_OF_A_REASON) }),
    reply: { status: 200, schema: Approval },
    errors: ['conflict'],
    audit: 'approval.reject',
    handle: async ({ params, body, author }, { approvals }) => ({
      body: approvalBody(await approvals.reject(author, params.approval_id, body.reason)),
    }),
  }),
  withdraw: endpoint({
    route: 'POST /approvals/{approval_id}/withdraw',
    permission: 'use_session',
    params,
    reply: { status: 200, schema: Approval },
    errors: ['conflict'],
    audit: 'approval.withdraw',
    handle: async ({ params, author }, { approvals }) => ({
      body: approvalBody(await approvals.withdraw(author, params.approval_id)),
    }),
  }),
  collectApproved: endpoint({
    route: 'POST /approvals/{approval_id}/collect',
    permission: 'use_session',
    params,
    reply: { status: 200, schema: z.strictObject({ operation: z.string(), reply: z.unknown() }) },
    errors: ['conflict'],
    audit: 'approval.collect',
    handle: async ({ params, author }, { approvals }) => ({
      body: await approvals.collect(author, params.approval_id),
    }),
  }),
})
