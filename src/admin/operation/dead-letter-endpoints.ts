/** `/events/dead`: deliveries of events that failed for good, seen, and sent again under the event's id. */

import type { CommonQueryMethods } from 'slonik'
import { z } from 'zod/v4'
import { AdminError, notFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { payloadOf } from '../../domain/stored-event.ts'
import { rowsOf } from '../../store/slonik.ts'
import { ADMINS, endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { type OffsetPage, offsetParameters, readByOffset } from '../pages.ts'
import { time, timestamp, uuid } from '../schemas.ts'

const DeadLetter = z
  .strictObject({
    id: z.uuid(),
    consumer: z.string(),
    event_id: z.uuid(),
    kind: z.string(),
    subject: z.string(),
    account_id: z.uuid().nullable(),
    occurred_at: timestamp(),
    data: z.record(z.string(), z.unknown()),
    attempts: z.int(),
    error: z.string(),
    failed_at: timestamp(),
  })
  .meta({ id: 'DeadLetter' })

const Row = z.object({
  id: z.string(),
  consumer: z.string(),
  event_id: z.string(),
  kind: z.string(),
  subject: z.string(),
  account_id: z.string().nullable(),
  occurred_at: z.date(),
  data: z.custom<object>(),
  attempts: z.int(),
  error: z.string(),
  failed_at: z.date(),
})
type DeadLetterRow = z.infer<typeof Row>

const bodyOf = (row: DeadLetterRow): z.input<typeof DeadLetter> => ({
  ...row,
  data: { ...payloadOf({ ...row, accountId: row.account_id ?? undefined }) },
  occurred_at: time(row.occurred_at),
  failed_at: time(row.failed_at),
})

export const DEAD_LETTERS = endpointGroup('Events', {
  listDeadLetters: endpoint({
    route: 'GET /events/dead',
    roles: ADMINS,
    summary: 'Lists deliveries of events that failed for good, the newest first, with their payload.',
    query: z.strictObject(offsetParameters()),
    reply: { status: 200, schema: z.array(DeadLetter) },
    async handle({ query }, { db, pages }) {
      const { rows, next } = await readByOffset(query, pages, (page) => listDeadLetters(db, page))
      return { body: rows.map(bodyOf), next }
    },
  }),
  retryDeadLetter: endpoint({
    route: 'POST /events/dead/{dead_letter_id}/retry',
    roles: ADMINS,
    summary: 'Delivers an event again that had failed for good.',
    params: z.strictObject({ dead_letter_id: uuid() }),
    reply: { status: 204 },
    errors: ['not_found', 'conflict'],
    audit: 'event.retry',
    async handle({ params, author }, { audit }) {
      await retryDeadLetter(audit, author, params.dead_letter_id)
      return {}
    },
  }),
})

/** @throws AdminError not_found; conflict when no instance has its consumer any more */
function retryDeadLetter(audit: AuditLog, author: Actor, id: string): Promise<void> {
  return audit.transaction(author, async (tx, note) => {
    const isRevived = await reviveDeadLetter(tx, id)
    if (isRevived === null) throw notFound('dead letter')
    if (!isRevived) throw new AdminError('conflict', 'its consumer is not configured on any instance')
    note('event.retry', { dead_letter_id: id })
  })
}

/** Newest first. */
function listDeadLetters(db: CommonQueryMethods, { limit, offset }: OffsetPage): Promise<readonly DeadLetterRow[]> {
  return db.any(rowsOf(Row)`
    SELECT id, consumer, event_id, kind, subject, account_id, occurred_at, data, attempts, error, failed_at
      FROM event_dead_letters ORDER BY failed_at DESC, id LIMIT ${limit} OFFSET ${offset}`)
}

/** Null when there is no such letter; false when its consumer is gone. */
async function reviveDeadLetter(tx: CommonQueryMethods, id: string): Promise<boolean | null> {
  const Letter = z.object({ is_wanted: z.boolean() })
  const letter = await tx.maybeOne(rowsOf(Letter)`
    SELECT EXISTS (SELECT FROM event_consumers c WHERE c.name = d.consumer) AS is_wanted
      FROM event_dead_letters d WHERE id = ${id} FOR UPDATE`)
  if (!letter?.is_wanted) return letter && false
  await tx.query(rowsOf(z.object({}))`
    WITH letter AS (DELETE FROM event_dead_letters WHERE id = ${id} RETURNING *)
    INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
    SELECT consumer, event_id, kind, subject, account_id, occurred_at, data FROM letter`)
  return true
}
