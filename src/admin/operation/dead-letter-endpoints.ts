/** `/events/dead`: deliveries of events that failed for good. */

import { z } from 'zod/v4'
import type { DeadLetterRow } from '../../store/event-store.ts'
import { ADMINS, endpoint, endpointGroup } from '../endpoint.ts'
import { limitOf, limitParameter, offsetPage, offsetParameter, requireNear } from '../pages.ts'
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

const bodyOf = (row: DeadLetterRow): z.input<typeof DeadLetter> => ({
  ...row,
  occurred_at: time(row.occurred_at),
  failed_at: time(row.failed_at),
})

export const DEAD_LETTERS = endpointGroup('Events', {
  listDeadLetters: endpoint({
    route: 'GET /events/dead',
    roles: ADMINS,
    summary: 'Lists deliveries of events that failed for good, the newest first, with their payload.',
    query: z.strictObject({ limit: limitParameter(), offset: offsetParameter() }),
    reply: { status: 200, schema: z.array(DeadLetter) },
    async handle({ query }, { deadLetters, pages }) {
      const limit = limitOf(query.limit, pages)
      requireNear(query.offset)
      const page = offsetPage(await deadLetters.list(limit + 1, query.offset), limit, query.offset)
      return { body: page.rows.map(bodyOf), next: page.next }
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
    async handle({ params, author }, { deadLetters }) {
      await deadLetters.retry(author, params.dead_letter_id)
      return {}
    },
  }),
})
