/** `/lost-decisions`: what people and clients decided and a fail-over of the database has lost. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import type { Actor } from '../../domain/administrator.ts'
import { OUTCOMES } from '../../domain/decision.ts'
import { boundedArray } from '../../shared/lib/bounded.ts'
import { allOf } from '../../store/list-page.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { type OffsetPage, offsetParameters, readByOffset } from '../pages.ts'
import { flagParameter, rowOf, timestamp, uuid, withTimes } from '../schemas.ts'
import type { AuditLog } from './audit-log.ts'

const LostDecision = z
  .strictObject({
    id: z.uuid(),
    decided_at: timestamp(),
    decided_by: z.string().meta({ description: 'A username, a user of the operating system, or an account.' }),
    act: z.string().meta({ description: 'As in the audit log, or an act of an ACME client.' }),
    subject: z.string().meta({ description: 'What it was about.' }),
    outcome: z.enum(OUTCOMES).meta({
      description:
        'restored: it is in effect again. partly: what it restricts is, and what it permits is lost. lost: repeat it, where it is still wanted. overtaken: a later act counts, or the thing is gone. entry: only its entry in the audit log was lost.',
    }),
    details: z.record(z.string(), z.unknown()),
    found_at: timestamp(),
    accepted_at: timestamp()
      .nullable()
      .meta({ description: 'When an administrator said that nothing more is to be done.' }),
  })
  .meta({ id: 'LostDecision' })

const Row = rowOf(LostDecision)
type LostDecisionRow = z.infer<typeof Row>

export const lostDecisionBody = (row: LostDecisionRow): z.input<typeof LostDecision> => withTimes(row)

const filters = {
  outcome: z.enum(OUTCOMES).optional(),
  accepted: flagParameter().optional().meta({ description: 'False: those that nobody has accepted.' }),
}
type Filter = { [M in keyof typeof filters]?: z.output<(typeof filters)[M]> }

const MOST_CHOSEN = 1_000

export const LOST_DECISIONS = endpointGroup('Audit log', {
  listLostDecisions: endpoint({
    route: 'GET /lost-decisions',
    permission: 'read',
    query: z.strictObject({ ...filters, ...offsetParameters() }),
    reply: { status: 200, schema: z.array(LostDecision) },
    async handle({ query: { outcome, accepted, ...place } }, { db, pages }) {
      const read = (page: OffsetPage) => listLostDecisions(db, { outcome, accepted }, page)
      const { rows, next } = await readByOffset(place, pages, read)
      return { body: rows.map(lostDecisionBody), next }
    },
  }),
  acceptLostDecisions: endpoint({
    route: 'POST /lost-decisions/accept',
    permission: 'administer',
    body: z.strictObject({ ids: boundedArray(uuid(), MOST_CHOSEN, 1).optional() }),
    bodyIsOptional: true,
    reply: { status: 200, schema: z.strictObject({ accepted: z.int() }) },
    audit: 'database.accept_lost',
    handle: async ({ body, author }, { audit }) => ({
      body: { accepted: await acceptLostDecisions(audit, author, body.ids) },
    }),
  }),
})

/** lost_decisions_found; what was found at once comes in the order in which it was decided. */
export function listLostDecisions(
  db: CommonQueryMethods,
  { outcome, accepted }: Filter,
  { limit, offset }: OffsetPage,
): Promise<readonly LostDecisionRow[]> {
  const conditions = [
    ...(outcome === undefined ? [] : [sql.fragment`outcome = ${outcome}`]),
    ...(accepted === undefined ? [] : [sql.fragment`(accepted_at IS NOT NULL) = ${accepted}`]),
  ]
  return db.any(rowsOf(Row)`
    SELECT id, decided_at, decided_by, act, subject, outcome, details, found_at, accepted_at FROM lost_decisions
     WHERE ${allOf(conditions)} ORDER BY found_at DESC, id LIMIT ${limit} OFFSET ${offset}`)
}

/** @param ids all when absent @returns how many nobody had accepted */
export function acceptLostDecisions(audit: AuditLog, author: Actor, ids?: readonly string[]): Promise<number> {
  const these = ids ? sql.fragment`id = ANY (${sql.array(ids, 'uuid')})` : sql.fragment`true`
  return audit.transaction(author, async (tx, note) => {
    const { rowCount: accepted } = await tx.query(rowsOf(z.object({}))`
      UPDATE lost_decisions SET accepted_at = now() WHERE accepted_at IS NULL AND ${these}`)
    if (accepted > 0) note('database.accept_lost', { accepted, ids })
    return accepted
  })
}
