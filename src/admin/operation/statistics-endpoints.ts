/** `/events/counts` and the failures of an account: what the service keeps of events. */

import { z } from 'zod/v4'
import { EVENT_KINDS, FAILURE_KINDS } from '../../domain/event.ts'
import type { AccountFailure as Kept } from '../../store/event-statistics-store.ts'
import { BOTH_ROLES, endpoint, endpointGroup } from '../endpoint.ts'
import { limitOf, limitParameter, offsetPage, offsetParameter, requireNear } from '../pages.ts'
import { instantParameter, time, timestamp, uuid, wholeParameter } from '../schemas.ts'

const MOST_HOURS = 30 * 24

export const EventCount = z
  .strictObject({
    hour: timestamp().meta({ description: 'Its beginning.' }),
    kind: z.string().meta({ description: `Such as ${EVENT_KINDS[0]}.` }),
    events: z.int(),
  })
  .meta({ id: 'EventCount' })

const AccountFailure = z
  .strictObject({
    id: z.uuid().meta({ description: 'Of the event.' }),
    account_id: z.uuid(),
    kind: z.string().meta({ description: `One of ${FAILURE_KINDS.join(', ')}.` }),
    occurred_at: timestamp(),
    data: z.record(z.string(), z.unknown()).meta({ description: 'The payload of the event, without tokens.' }),
  })
  .meta({ id: 'AccountFailure' })

function failureBody({ event_id, account_id, kind, occurred_at, data }: Kept): z.input<typeof AccountFailure> {
  // Replies are copied into tickets, so the token stays out.
  const { token: _, ...shown }: Kept['data'] & { token?: string } = data
  return { id: event_id, account_id, kind, occurred_at: time(occurred_at), data: shown }
}

export const EVENT_COUNTS = endpointGroup('Events', {
  getEventCounts: endpoint({
    route: 'GET /events/counts',
    roles: BOTH_ROLES,
    summary: 'Counts events by hour and kind, the oldest hour first; an hour without events is left out.',
    query: z.strictObject({ hours: wholeParameter(1, MOST_HOURS).default(24) }),
    reply: { status: 200, schema: z.array(EventCount) },
    handle: async ({ query }, { statistics }) => ({
      body: (await statistics.counts(query.hours)).map(({ hour, kind, events }) => ({
        hour: time(hour),
        kind,
        events,
      })),
    }),
  }),
})

export const FAILURES = endpointGroup('Accounts', {
  listFailures: endpoint({
    route: 'GET /failures',
    roles: BOTH_ROLES,
    summary: 'Lists failures of all accounts within 30 days, the newest first; of each account the last 50 are kept.',
    query: z.strictObject({ since: instantParameter().optional(), limit: limitParameter(), offset: offsetParameter() }),
    reply: { status: 200, schema: z.array(AccountFailure) },
    async handle({ query: { since = new Date(0), offset, ...query } }, { statistics, pages }) {
      requireNear(offset)
      const limit = limitOf(query.limit, pages)
      const page = offsetPage(await statistics.failures(since, { limit: limit + 1, offset }), limit, offset)
      return { body: page.rows.map(failureBody), next: page.next }
    },
  }),
  listFailuresOfAccount: endpoint({
    route: 'GET /accounts/{account_id}/failures',
    roles: BOTH_ROLES,
    summary: 'Lists the last 50 failures of an account within 30 days, the newest first.',
    params: z.strictObject({ account_id: uuid() }),
    reply: { status: 200, schema: z.array(AccountFailure) },
    errors: ['not_found'],
    handle: async ({ params }, { statistics }) => ({
      body: (await statistics.failuresOf(params.account_id)).map(failureBody),
    }),
  }),
})
