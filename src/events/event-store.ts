/** SQL of events: consumers, deliveries, dead letters. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import type { EventKind, OccurredEvent } from '../domain/event.ts'
import { readEvent } from '../domain/stored-event.ts'
import { columnsOf, rowsOf, sql } from '../store/slonik.ts'

export interface Delivery {
  sequence: string
  event: OccurredEvent
  /** Failed attempts so far. */
  attempts: number
}

const None = z.object({})

/** PostgreSQL gives it by our own table: a schema would cost as much as the delivery. */
interface DeliveryRow {
  sequence: string
  event_id: string
  kind: string
  subject: string
  account_id: string | null
  occurred_at: Date
  data: object
  attempts: number
}

const UncheckedRow = z.custom<DeliveryRow>()

const deliveryOf = (row: DeliveryRow): Delivery => ({
  sequence: row.sequence,
  attempts: row.attempts,
  event: readEvent({
    id: row.event_id,
    kind: row.kind,
    subject: row.subject,
    accountId: row.account_id ?? undefined,
    occurredAt: row.occurred_at,
    data: row.data,
  }),
})

const columns = sql.fragment`d.sequence, d.event_id, d.kind, d.subject, d.account_id, d.occurred_at, d.data, d.attempts`
/** First half of the key of a lock; the name of the consumer makes the second. */
const TAKERS = 712101
const inOrder = (rows: readonly Delivery[]) => rows.toSorted((a, b) => Number(BigInt(a.sequence) - BigInt(b.sequence)))

/** After a promotion that lost some, a sequence number may stand for another event. */
const isOneOf = (row: 'n' | 'd', deliveries: readonly Delivery[]) => sql.fragment`
  (${sql.identifier([row, 'sequence'])} = ANY (${columnsOf(deliveries)(({ sequence }) => sequence, 'int8')})
   AND ${sql.identifier([row, 'event_id'])} = ANY (${columnsOf(deliveries)(({ event }) => event.id, 'uuid')}))`

/**
 * Says which kinds a consumer wants; repeated while an instance delivers to it.
 * @param holderKinds kinds that it wants only about accounts with a contact
 */
export async function registerConsumer(
  db: CommonQueryMethods,
  name: string,
  kinds: readonly EventKind[],
  holderKinds: readonly EventKind[] = [],
): Promise<void> {
  await db.query(rowsOf(None)`
    INSERT INTO event_consumers (name, kinds, holder_kinds)
    VALUES (${name}, ${sql.array([...kinds], 'text')}, ${sql.array([...holderKinds], 'text')})
    ON CONFLICT (name) DO UPDATE SET kinds = EXCLUDED.kinds, holder_kinds = EXCLUDED.holder_kinds, seen_at = now()`)
}

/** Consumers that no instance has delivered to for this long leave with what waits for them. */
export async function removeUnseenConsumers(db: CommonQueryMethods, days: number): Promise<readonly string[]> {
  const Name = z.object({ name: z.string() })
  const rows = await db.any(rowsOf(Name)`
    DELETE FROM event_consumers WHERE seen_at < slow_now() - make_interval(days => ${days}) RETURNING name`)
  // One step of the primary key for each consumer; a writer may have added some since the last time.
  await db.query(rowsOf(None)`
    WITH RECURSIVE present AS (
      SELECT min(consumer) AS consumer FROM event_deliveries
      UNION ALL
      SELECT (SELECT min(d.consumer) FROM event_deliveries d WHERE d.consumer > p.consumer)
        FROM present p WHERE p.consumer IS NOT NULL
    )
    DELETE FROM event_deliveries WHERE consumer = ANY (ARRAY(
      SELECT consumer FROM present WHERE consumer IS NOT NULL
      EXCEPT SELECT name FROM event_consumers))`)
  return rows.map(({ name }) => name)
}

/** One instance at a time takes or claims; the others get none, and look again. */
const isAlone = (consumer: string) => sql.fragment`(SELECT pg_try_advisory_xact_lock(${TAKERS}, hashtext(${consumer})))`

/** Only a retry waits: the database's clock was ahead when an event was written whose time has not come. */
const isDue = (row: 'n' | 'd') =>
  sql.fragment`(${sql.identifier([row, 'attempts'])} = 0 OR ${sql.identifier([row, 'due_at'])} <= now())`

/**
 * Not due, or behind another event of its subject: it waits. Consumers in the database have no part
 * in the index `event_deliveries_subject`.
 */
const isNext = sql.fragment`
  ${isDue('n')} AND NOT EXISTS (
    SELECT FROM event_deliveries e
     WHERE e.consumer = n.consumer AND e.subject = n.subject AND e.sequence < n.sequence
       AND e.consumer NOT IN ('notifications', 'statistics'))`

/**
 * The table is long or short within minutes, so statistics mislead: a plan for a few rows reads and sorts all that wait,
 * and all that was removed since the last vacuum.
 */
const ALONG_THE_KEY = rowsOf(None)`
  SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)`

/**
 * Removes the next deliveries of a consumer in the database, for the transaction that takes them.
 * One instance at a time: the others get none.
 */
export async function takeDeliveries(
  tx: CommonQueryMethods,
  consumer: string,
  limit: number,
): Promise<readonly Delivery[]> {
  await tx.query(ALONG_THE_KEY)
  const rows = await tx.any(rowsOf(UncheckedRow)`
    DELETE FROM event_deliveries d WHERE d.consumer = ${consumer} AND d.sequence = ANY (ARRAY(
      SELECT n.sequence FROM event_deliveries n
       WHERE n.consumer = ${consumer} AND ${isAlone(consumer)}
       ORDER BY n.sequence LIMIT ${limit}))
    RETURNING ${columns}`)
  return inOrder(rows.map(deliveryOf))
}

/** @param running what this instance has in hand; what else it has claimed came with an earlier state of the database */
const isFree = (row: 'n' | 'd', instanceId: number, running: readonly Delivery[]) => {
  const claimedBy = sql.identifier([row, 'claimed_by'])
  return sql.fragment`
    (${claimedBy} IS NULL
      OR ${claimedBy} <> ${instanceId} AND ${claimedBy} NOT IN (SELECT live_instances())
      OR ${claimedBy} = ${instanceId} AND NOT ${isOneOf(row, running)})`
}

/** Takes the next deliveries for an instance: unclaimed ones, claims of instances that are gone, and its own that it lost. */
export async function claimDeliveries(
  db: CommonQueryMethods,
  consumer: string,
  instanceId: number,
  { limit, running }: { limit: number; running: readonly Delivery[] },
): Promise<readonly Delivery[]> {
  const rows = await db.transaction(async (tx) => {
    await tx.query(ALONG_THE_KEY)
    return tx.any(rowsOf(UncheckedRow)`
    UPDATE event_deliveries d SET claimed_by = ${instanceId} WHERE d.consumer = ${consumer} AND d.sequence = ANY (ARRAY(
      SELECT n.sequence FROM event_deliveries n
       WHERE n.consumer = ${consumer} AND ${isAlone(consumer)} AND ${isNext} AND ${isFree('n', instanceId, running)}
       ORDER BY n.sequence LIMIT ${limit}))
       -- Once more: another claim may have been committed between the snapshot and the lock.
       AND ${isDue('d')} AND ${isFree('d', instanceId, running)}
    RETURNING ${columns}`)
  })
  return inOrder(rows.map(deliveryOf))
}

/** At the end of an instance: the others need not wait until it is gone. */
export async function releaseDeliveries(db: CommonQueryMethods, consumer: string, instanceId: number): Promise<void> {
  await db.query(rowsOf(None)`
    UPDATE event_deliveries SET claimed_by = NULL WHERE consumer = ${consumer} AND claimed_by = ${instanceId}`)
}

export async function removeDeliveries(
  tx: CommonQueryMethods,
  consumer: string,
  instanceId: number,
  delivered: readonly Delivery[],
): Promise<void> {
  // Another instance may have taken one over.
  await tx.query(rowsOf(None)`
    DELETE FROM event_deliveries d
     WHERE d.consumer = ${consumer} AND ${isOneOf('d', delivered)} AND d.claimed_by = ${instanceId}`)
}

export async function postponeDelivery(
  db: CommonQueryMethods,
  consumer: string,
  delivery: Delivery,
  { error, delayMs }: { error: string; delayMs: number },
): Promise<void> {
  await db.query(rowsOf(None)`
    UPDATE event_deliveries d
       SET attempts = attempts + 1, claimed_by = NULL, error = ${error}, due_at = now() + make_interval(secs => ${delayMs / 1000})
     WHERE d.consumer = ${consumer} AND ${isOneOf('d', [delivery])}`)
}

/** The delivery has failed for good. */
export async function buryDelivery(
  db: CommonQueryMethods,
  consumer: string,
  delivery: Delivery,
  error: string,
): Promise<void> {
  await db.query(rowsOf(None)`
    WITH gone AS (
      DELETE FROM event_deliveries d WHERE d.consumer = ${consumer} AND ${isOneOf('d', [delivery])} RETURNING *
    )
    INSERT INTO event_dead_letters (consumer, event_id, kind, subject, account_id, occurred_at, data, attempts, error)
    SELECT consumer, event_id, kind, subject, account_id, occurred_at, data, attempts + 1, ${error} FROM gone`)
}
