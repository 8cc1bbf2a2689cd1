/**
 * `/events` and `/failures`: what the consumer `statistics` keeps of events, and deliveries that failed for good, seen and
 * sent again under the event's id.
 */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError, notFound, requireFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { EVENT_KINDS, FAILURE_KINDS } from '../../domain/event.ts'
import { type Scope, scopeOf } from '../../domain/permissions.ts'
import { payloadOf } from '../../domain/stored-event.ts'
import { boundedArray } from '../../shared/lib/bounded.ts'
import {
  type AccountFailure as Kept,
  listAccountFailures,
  listFailureCauses,
  listFailures,
  MOST_GROUPED,
  readEventCounts,
} from '../../store/event-statistics-store.ts'
import { rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup, withoutBody } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import { accountExists, accountNameMember, withAccountNames } from '../certificates/account-list.ts'
import { limitOf, limitParameter, type OffsetPage, offsetParameters, readByOffset } from '../pages.ts'
import { FAILURE_FILTERS } from '../resources/accounts.ts'
import { line, parametersOf, rowOf, text, timestamp, uuid, whenSound, wholeParameter, withTimes } from '../schemas.ts'

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

const failureBody = ({ event_id: id, data, ...failure }: NamedFailure): z.input<typeof AccountFailure> => ({
  ...withTimes(failure),
  id,
  data: shown(data),
})

/** Replies are copied into tickets, so the token stays out. */
function shown({ token: _, ...data }: Kept['data'] & { token?: string }): Record<string, unknown> {
  return data
}

const FailureCause = z
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
    handle: async ({ query }, { db }) => ({ body: (await readEventCounts(db, query.hours)).map(withTimes) }),
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
    reply: { status: 200, schema: z.array(FailureCause) },
    async handle({ query: { limit, ...given }, author }, { db, pages }) {
      const causes = await listFailureCauses(db, { ...given, scope: scopeOf(author) }, limitOf(limit, pages))
      return { body: causes.map((cause) => ({ ...withTimes(cause), data: shown(cause.data) })) }
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

const DeadLetter = z
  .strictObject({
    id: z.uuid(),
    consumer: z.string(),
    event_id: z.uuid(),
    kind: z.string(),
    subject: z.string(),
    account_id: z.uuid().nullable(),
    account_name: accountNameMember(),
    occurred_at: timestamp(),
    data: z.record(z.string(), z.unknown()),
    attempts: z.int(),
    error: z.string(),
    failed_at: timestamp(),
  })
  .meta({ id: 'DeadLetter' })

const DeadLetterCause = z
  .strictObject({
    consumer: z.string(),
    error: z.string().meta({ description: 'At most 200 characters.' }),
    events: z.int().meta({ description: `Of the ${MOST_GROUPED.toLocaleString('en')} that failed last.` }),
    last_at: timestamp(),
  })
  .meta({ id: 'DeadLetterCause' })

const Row = rowOf(DeadLetter.omit({ account_name: true })).extend({ data: z.custom<object>() })
type DeadLetterRow = z.infer<typeof Row>

const bodyOf = (row: DeadLetterRow & { account_name: string | null }): z.input<typeof DeadLetter> => ({
  ...withTimes(row),
  data: { ...payloadOf({ ...row, accountId: row.account_id ?? undefined }) },
})

const MOST_CHOSEN = 1_000

/** Letters of one consumer and one error go together, or letters that were chosen. */
const Selection = z
  .strictObject({
    ids: boundedArray(uuid(), MOST_CHOSEN, 1).optional(),
    consumer: line(128).optional(),
    error: text(200, 'must have at most 200 characters').optional(),
  })
  .refine(({ ids, consumer, error }) => (ids === undefined) !== (consumer === undefined || error === undefined), {
    error: "must have 'ids', or 'consumer' and 'error' as /events/dead/causes has them",
    when: whenSound,
  })

export const DEAD_LETTERS = endpointGroup('Events', {
  listDeadLetterCauses: endpoint({
    route: 'GET /events/dead/causes',
    permission: 'operate',
    reply: { status: 200, schema: z.array(DeadLetterCause) },
    query: z.strictObject({ limit: limitParameter() }),
    handle: async ({ query }, { db, pages }) => ({
      body: (await listDeadLetterCauses(db, limitOf(query.limit, pages))).map(withTimes),
    }),
  }),
  retryDeadLetters: endpoint({
    route: 'POST /events/dead/retry',
    permission: 'operate',
    body: Selection,
    reply: { status: 200, schema: z.strictObject({ retried: z.int() }) },
    audit: 'event.retry',
    handle: async ({ body, author }, { audit }) => ({
      body: {
        retried: await audit.transaction(author, async (tx, note) => {
          const retried = await reviveDeadLetters(tx, body)
          if (retried > 0) note('event.retry', { retried, consumer: body.consumer, error: body.error })
          return retried
        }),
      },
    }),
  }),
  listDeadLetters: endpoint({
    route: 'GET /events/dead',
    permission: 'operate',
    query: z.strictObject(offsetParameters()),
    reply: { status: 200, schema: z.array(DeadLetter) },
    async handle({ query }, { db, pages }) {
      const { rows, next } = await readByOffset(query, pages, (page) => listDeadLetters(db, page))
      return { body: (await withAccountNames(db, rows)).map(bodyOf), next }
    },
  }),
  retryDeadLetter: endpoint({
    route: 'POST /events/dead/{dead_letter_id}/retry',
    permission: 'operate',
    params: z.strictObject({ dead_letter_id: uuid() }),
    reply: { status: 204 },
    errors: ['conflict'],
    audit: 'event.retry',
    handle: ({ params, author }, { audit }) => withoutBody(retryDeadLetter(audit, author, params.dead_letter_id)),
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
  return (await reviveDeadLetters(tx, { ids: [id] })) > 0
}

const Cause = rowOf(DeadLetterCause)

function listDeadLetterCauses(db: CommonQueryMethods, limit: number) {
  return db.any(rowsOf(Cause)`
    SELECT consumer, left(error, 200) AS error, count(*)::integer AS events, max(failed_at) AS last_at
      FROM (SELECT consumer, error, failed_at FROM event_dead_letters ORDER BY failed_at DESC LIMIT ${MOST_GROUPED}) d
     GROUP BY consumer, left(error, 200) ORDER BY events DESC, last_at DESC LIMIT ${limit}`)
}

/** Leaves those whose consumer is not configured any more. @returns how many */
async function reviveDeadLetters(tx: CommonQueryMethods, { ids, consumer, error }: z.output<typeof Selection>) {
  const these = ids
    ? sql.fragment`id = ANY (${sql.array(ids, 'uuid')})`
    : sql.fragment`consumer = ${consumer ?? ''} AND left(error, 200) = ${error ?? ''}`
  const { rowCount } = await tx.query(rowsOf(z.object({}))`
    WITH letters AS (
      DELETE FROM event_dead_letters WHERE id IN (
        SELECT id FROM event_dead_letters d
         WHERE ${these} AND EXISTS (SELECT FROM event_consumers c WHERE c.name = d.consumer)
         ORDER BY occurred_at LIMIT ${MOST_CHOSEN} FOR UPDATE SKIP LOCKED)
      RETURNING *)
    INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
    SELECT consumer, event_id, kind, subject, account_id, occurred_at, data FROM letters ORDER BY occurred_at`)
  return rowCount
}
