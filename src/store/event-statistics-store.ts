/** SQL of what the console shows of events: counts by hour, failures by account. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import type { RaisedAlarm } from '../domain/alarms.ts'
import type { EventData, EventOf, OccurredEvent } from '../domain/event.ts'
import type { Scope } from '../domain/permissions.ts'
import { spellingsOf } from '../shared/protocol/identifier.ts'
import { allOf, isAmongAccountsOf } from './list-page.ts'
import { columnsOf, queriesOf, rowsOf, sql } from './slonik.ts'

const None = z.object({})
const DAYS = 30
const FAILURES_OF_AN_ACCOUNT = 50

export async function addEventCounts(tx: CommonQueryMethods, events: readonly OccurredEvent[]): Promise<void> {
  const column = columnsOf(events)
  await tx.query(rowsOf(None)`
    INSERT INTO event_counts AS c (hour, kind, events)
    SELECT date_trunc('hour', at), kind, count(*)
      FROM unnest(${column(({ occurredAt }) => occurredAt.toISOString(), 'timestamptz')},
                  ${column(({ kind }) => kind, 'text')}) AS e (at, kind)
     GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (hour, kind) DO UPDATE SET events = c.events + EXCLUDED.events`)
}

export async function addRaisedAlarms(tx: CommonQueryMethods, alarms: readonly EventOf<'alarm'>[]): Promise<void> {
  const column = columnsOf(alarms)
  await tx.query(rowsOf(None)`
    INSERT INTO raised_alarms (event_id, raised_at, message, reason)
    SELECT * FROM unnest(
      ${column(({ id }) => id, 'uuid')}, ${column(({ occurredAt }) => occurredAt.toISOString(), 'timestamptz')},
      ${column(({ data }) => data.message, 'text')}, ${column(({ data }) => data.reason ?? null, 'text')})
    ON CONFLICT DO NOTHING`)
}

/** raised_alarms_time */
export const RAISED_ALARMS = `
    SELECT message, reason, count(*)::integer AS times, max(raised_at) AS "lastAt" FROM raised_alarms
     WHERE raised_at > now() - interval '24 hours' GROUP BY message, reason ORDER BY "lastAt" DESC LIMIT 20`

/** Groups the alarms of a day by their text, the latest first. */
export const listRaisedAlarms = (db: CommonQueryMethods) =>
  queriesOf(db).query<RaisedAlarm>({ name: 'raised-alarms', text: RAISED_ALARMS }, [])

export async function addAccountFailures(tx: CommonQueryMethods, events: readonly OccurredEvent[]): Promise<void> {
  const column = columnsOf(events)
  await tx.query(rowsOf(None)`
    INSERT INTO account_failures (account_id, event_id, kind, occurred_at, data)
    SELECT * FROM unnest(
      ${column(({ accountId }) => accountId ?? null, 'uuid')}, ${column(({ id }) => id, 'uuid')},
      ${column(({ kind }) => kind, 'text')}, ${column(({ occurredAt }) => occurredAt.toISOString(), 'timestamptz')},
      ${column(({ data }) => JSON.stringify(data), 'jsonb')})
    ON CONFLICT DO NOTHING`)
  const accounts = [...new Set(events.map(({ accountId }) => accountId as string))]
  // By rank, not by time: several may have happened in one millisecond.
  await tx.query(rowsOf(None)`
    DELETE FROM account_failures f USING (
      SELECT account_id, occurred_at, event_id,
             row_number() OVER (PARTITION BY account_id ORDER BY occurred_at DESC, event_id DESC) AS rank
        FROM account_failures WHERE account_id = ANY (${sql.array(accounts, 'uuid')})) ranked
     WHERE f.account_id = ranked.account_id AND f.occurred_at = ranked.occurred_at AND f.event_id = ranked.event_id
       AND ranked.rank > ${FAILURES_OF_AN_ACCOUNT}`)
}

export const Failure = z.object({
  account_id: z.string(),
  event_id: z.string(),
  kind: z.string(),
  occurred_at: z.date(),
  data: z.custom<EventData>(),
})
export type AccountFailure = z.infer<typeof Failure>

/** The newest first; at most 50. */
export function listAccountFailures(db: CommonQueryMethods, accountId: string): Promise<readonly AccountFailure[]> {
  return db.any(rowsOf(Failure)`
    SELECT account_id, event_id, kind, occurred_at, data FROM account_failures
     WHERE account_id = ${accountId} ORDER BY occurred_at DESC, event_id DESC LIMIT ${FAILURES_OF_AN_ACCOUNT}`)
}

interface FailureFilter {
  since?: Date | undefined
  account_id?: string | undefined
  kind?: string | undefined
  /** The last part of its error type (RFC 8555 §6.7); empty for failures without one. */
  problem?: string | undefined
  /** A name that it is about. */
  name?: string | undefined
  scope: Scope
}

const PROBLEM = sql.fragment`
  regexp_replace(coalesce(f.data->>'problem', CASE WHEN jsonb_typeof(f.data->'error') = 'object' THEN f.data->'error'->>'type' END, ''), '^.*:', '')`

const concerns = (name: string) => sql.fragment`failure_names(f.data) && ${sql.array(spellingsOf(name), 'text')}`

/** account_failures_time, or account_failures_pkey for one account; 50 are kept for each account */
const fitting = ({ since = new Date(0), account_id, kind, problem, name, scope }: FailureFilter) =>
  allOf([
    sql.fragment`f.occurred_at >= ${since.toISOString()}::timestamptz`,
    isAmongAccountsOf(sql.fragment`f.account_id`, scope),
    ...(account_id === undefined ? [] : [sql.fragment`f.account_id = ${account_id}`]),
    ...(kind === undefined ? [] : [sql.fragment`f.kind = ${kind}`]),
    ...(problem === undefined ? [] : [sql.fragment`${PROBLEM} = ${problem}`]),
    ...(name === undefined ? [] : [concerns(name)]),
  ])

/** Failures of all accounts, the newest first. */
export function listFailures(
  db: CommonQueryMethods,
  filter: FailureFilter,
  { limit, offset }: { limit: number; offset: number },
): Promise<readonly AccountFailure[]> {
  return db.any(rowsOf(Failure)`
    SELECT f.account_id, f.event_id, f.kind, f.occurred_at, f.data FROM account_failures f WHERE ${fitting(filter)}
     ORDER BY f.occurred_at DESC, f.event_id DESC LIMIT ${limit} OFFSET ${offset}`)
}

const Cause = z.object({
  kind: z.string(),
  problem: z.string(),
  failures: z.int(),
  accounts: z.int(),
  last_at: z.date(),
  /** The payload of the newest of them. */
  data: z.custom<EventData>(),
})
type FailureCause = z.infer<typeof Cause>

/** The newest failures are grouped, no more. */
export const MOST_GROUPED = 10_000

/** By kind and problem type, the commonest first. */
export function listFailureCauses(
  db: CommonQueryMethods,
  filter: FailureFilter,
  limit: number,
): Promise<readonly FailureCause[]> {
  return db.any(rowsOf(Cause)`
    SELECT g.kind, g.problem, count(*)::integer AS failures, count(DISTINCT g.account_id)::integer AS accounts,
           max(g.occurred_at) AS last_at, (array_agg(g.data ORDER BY g.occurred_at DESC))[1] AS data
      FROM (SELECT f.account_id, f.kind, ${PROBLEM} AS problem, f.occurred_at, f.data FROM account_failures f
             WHERE ${fitting(filter)} ORDER BY f.occurred_at DESC, f.event_id DESC LIMIT ${MOST_GROUPED}) g
     GROUP BY g.kind, g.problem ORDER BY failures DESC, last_at DESC LIMIT ${limit}`)
}

const HourlyCount = z.object({ hour: z.date(), kind: z.string(), events: z.int() })
export type HourlyCount = z.infer<typeof HourlyCount>

/** Counts of the last hours, with the present one, the oldest first. Hours without events have no row. */
export function readEventCounts(db: CommonQueryMethods, hours: number): Promise<readonly HourlyCount[]> {
  return db.any(rowsOf(HourlyCount)`
    SELECT hour, kind, events::integer AS events FROM event_counts
     WHERE hour > now() - make_interval(hours => ${hours}) ORDER BY hour, kind`)
}

export async function removeOldCounts(db: CommonQueryMethods): Promise<void> {
  await db.query(rowsOf(None)`DELETE FROM event_counts WHERE hour < slow_now() - make_interval(days => ${DAYS})`)
  await db.query(rowsOf(None)`DELETE FROM raised_alarms WHERE raised_at < slow_now() - make_interval(days => ${DAYS})`)
  await db.query(
    rowsOf(None)`DELETE FROM account_failures WHERE occurred_at < slow_now() - make_interval(days => ${DAYS})`,
  )
}
