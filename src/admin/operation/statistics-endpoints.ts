/** `/events/counts` and the failures of accounts: what the consumer `statistics` keeps of events. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { requireFound } from '../../domain/admin-error.ts'
import { EVENT_KINDS, FAILURE_KINDS } from '../../domain/event.ts'
import { type Scope, scopeOf } from '../../domain/permissions.ts'
import {
  type AccountFailure as Kept,
  listAccountFailures,
  listFailureCauses,
  listFailures,
  MOST_GROUPED,
  readEventCounts,
} from '../../store/event-statistics-store.ts'
import { accountNameMember, withAccountNames } from '../account-names.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { accountExists } from '../certificates/account-list.ts'
import { parametersOf } from '../filter-schemas.ts'
import { limitOf, limitParameter, offsetParameters, readByOffset } from '../pages.ts'
import { FAILURE_FILTERS } from '../resources/accounts.ts'
import { time, timestamp, uuid, wholeParameter } from '../schemas.ts'

const MOST_HOURS = 30 * 24

const EventCount = z
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
    account_name: accountNameMember(),
    kind: z.string().meta({ description: `One of ${FAILURE_KINDS.join(', ')}.` }),
    occurred_at: timestamp(),
    data: z.record(z.string(), z.unknown()).meta({ description: 'The payload of the event, without tokens.' }),
  })
  .meta({ id: 'AccountFailure' })

type NamedFailure = Kept & { account_name: string | null }

function failureBody({ event_id, data, occurred_at, ...failure }: NamedFailure): z.input<typeof AccountFailure> {
  const { account_id, account_name, kind } = failure
  return { id: event_id, account_id, account_name, kind, occurred_at: time(occurred_at), data: shown(data) }
}

/** Replies are copied into tickets, so the token stays out. */
function shown({ token: _, ...data }: Kept['data'] & { token?: string }): Record<string, unknown> {
  return data
}

const Cause = z
  .strictObject({
    kind: z.string(),
    problem: z.string().meta({ description: 'The last part of its error type (RFC 8555 §6.7); empty without one.' }),
    failures: z.int().meta({ description: `Of the newest ${MOST_GROUPED}.` }),
    accounts: z.int(),
    last_at: timestamp(),
    data: z.record(z.string(), z.unknown()).meta({ description: 'Of the newest of them.' }),
  })
  .meta({ id: 'FailureCause' })

const failureFilter = parametersOf(FAILURE_FILTERS)

export const EVENT_COUNTS = endpointGroup('Events', {
  getEventCounts: endpoint({
    route: 'GET /events/counts',
    permission: 'read',
    query: z.strictObject({ hours: wholeParameter(1, MOST_HOURS).default(24) }),
    reply: { status: 200, schema: z.array(EventCount) },
    handle: async ({ query }, { db }) => ({
      body: (await readEventCounts(db, query.hours)).map(({ hour, kind, events }) => ({
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
    permission: 'read_accounts',
    scope: 'accounts',
    query: z.strictObject({ ...failureFilter, ...offsetParameters() }),
    reply: { status: 200, schema: z.array(AccountFailure) },
    async handle({ query: { limit, offset, ...given }, author }, { db, pages }) {
      const filter = { ...given, scope: scopeOf(author) }
      const { rows, next } = await readByOffset({ limit, offset }, pages, (page) => listFailures(db, filter, page))
      return { body: (await withAccountNames(db, rows)).map(failureBody), next }
    },
  }),
  listFailureCauses: endpoint({
    route: 'GET /failures/causes',
    permission: 'read_accounts',
    scope: 'accounts',
    query: z.strictObject({ ...failureFilter, limit: limitParameter() }),
    reply: { status: 200, schema: z.array(Cause) },
    async handle({ query: { limit, ...given }, author }, { db, pages }) {
      const causes = await listFailureCauses(db, { ...given, scope: scopeOf(author) }, limitOf(limit, pages))
      return {
        body: causes.map(({ last_at, data, ...cause }) => ({ ...cause, last_at: time(last_at), data: shown(data) })),
      }
    },
  }),
  listFailuresOfAccount: endpoint({
    route: 'GET /accounts/{account_id}/failures',
    permission: 'read_accounts',
    scope: 'accounts',
    params: z.strictObject({ account_id: uuid() }),
    reply: { status: 200, schema: z.array(AccountFailure) },
    handle: async ({ params, author }, { db }) => ({
      body: (await withAccountNames(db, await failuresOf(db, params.account_id, scopeOf(author)))).map(failureBody),
    }),
  }),
})

/** The last 50, the newest first. */
async function failuresOf(db: CommonQueryMethods, accountId: string, scope: Scope): Promise<readonly Kept[]> {
  requireFound(await accountExists(db, accountId, scope), 'account')
  return listAccountFailures(db, accountId)
}
