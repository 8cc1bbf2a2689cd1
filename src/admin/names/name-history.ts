/**
 * The time line of a name: orders with their validations, refusals, certificates and revocations, the newest first.
 *
 * Certificates are found by certificates_names and failures by account_failures_names; both are read whole, as few are
 * of one name.
 */

import type { DatabasePool } from 'slonik'
import * as z from 'zod/v4'
import { explainFailure } from '../../domain/failure-advice.ts'
import type { Scope } from '../../domain/permissions.ts'
import { AUTHORIZATION_STATUSES } from '../../domain/states.ts'
import { isUuid, lowestUuidv7, uuidTime } from '../../shared/lib/uuid.ts'
import { spellingsOf } from '../../shared/protocol/identifier.ts'
import { STATUS_NOW } from '../../store/authorization-row.ts'
import { type AccountFailure, Failure } from '../../store/event-statistics-store.ts'
import { type Fragment, instant, isAccountInScope } from '../../store/list-page.ts'
import { type CommonQueryMethods, columnsOf, constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { BASIC_COLUMNS, BasicCertificate } from '../certificates/certificate-list.ts'
import {
  derivedStatus,
  type ListedOrder,
  ListedOrderRow,
  listOrders,
  ORDER_COLUMNS,
  StoredFacts,
} from '../certificates/order-list.ts'
import { withName } from '../resources/certificates.ts'

export type HistoryEntry = { at: Date; account_id: string | null } & (
  | { kind: 'order'; order: ListedOrder; validations: readonly Validation[] }
  | { kind: 'failure'; failure: AccountFailure }
  | { kind: 'certificate' | 'revocation'; certificate: NamedCertificate }
)

/** A part of the history: it happened before an instant, to one of the names. */
export interface HistoryPart {
  names: readonly string[]
  before: Date | undefined
  scope: Scope
  limit: number
}

/** The authorization of a wildcard is for the name without it, and so are its failures. @param names the name itself first */
export const namesOfFailures = ([name = '', ...covering]: readonly string[]): string[] => [
  ...new Set([name, ...covering, name.replace(/^\*\./, '')].flatMap(spellingsOf)),
]

/** @param names the name itself first */
export async function readHistory(db: DatabasePool, { names, ...part }: HistoryPart) {
  const one = { ...part, limit: part.limit + 1 }
  const ofFailures = namesOfFailures(names)
  const [issued, revoked, failures, known] = await Promise.all([
    certificatesOfNames(db, { ...one, names }, 'issued_at'),
    certificatesOfNames(db, { ...one, names }, 'revoked_at'),
    failuresOfNames(db, { ...one, names: ofFailures }),
    failuresOfNames(db, { ...one, names: ofFailures, before: undefined }),
  ])
  const { orders, areAllRead } = await readOrders(db, { ...one, names }, known)
  const ids = orders.map(({ id }) => id)
  const validations = await validationsOf(db, ids, names)
  // The later ones first, where they have one instant.
  const entries: HistoryEntry[] = [
    ...revoked.map((certificate) => certificateEntry('revocation', certificate)),
    ...issued.map((certificate) => certificateEntry('certificate', certificate)),
    ...failures.map((failure): HistoryEntry => {
      return { kind: 'failure', at: failure.occurred_at, account_id: failure.account_id, failure }
    }),
    ...orders.map((order): HistoryEntry => {
      const ofOrder = validations.filter(({ order_id }) => order_id === order.id)
      return { kind: 'order', at: uuidTime(order.id), account_id: order.account_id, order, validations: ofOrder }
    }),
  ]
  entries.sort((a, b) => b.at.getTime() - a.at.getTime())
  return { ...cutAt(entries, part.limit), areAllOrdersRead: areAllRead }
}

const certificateEntry = (kind: 'certificate' | 'revocation', certificate: NamedCertificate): HistoryEntry => ({
  kind,
  at: certificate.at,
  account_id: certificate.account_id,
  certificate,
})

/** Entries of one instant stay together, as the next page begins before it. */
function cutAt(entries: readonly HistoryEntry[], limit: number) {
  const end = entries[limit - 1]?.at.getTime()
  if (entries.length <= limit || end === undefined) return { entries, next: undefined }
  const shown = entries.filter(({ at }) => at.getTime() >= end)
  return { entries: shown, next: shown.length < entries.length ? new Date(end) : undefined }
}

/** Reads orders that a certificate or failure leads to, and orders of the name among the newest, or all by orders_names. */
async function readOrders(db: DatabasePool, part: HistoryPart, failures: readonly AccountFailure[]) {
  const { names, before, scope, limit } = part
  const filter = { ...withName(names[0] ?? ''), created_before: before, scope }
  const [led, { rows, isComplete }] = await Promise.all([
    ordersOfNames(db, part, failures),
    listOrders(db, filter, undefined, limit),
  ])
  const orders = [...new Map([...led, ...rows].map((order) => [order.id, order])).values()]
  return { orders: orders.sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, limit), areAllRead: isComplete }
}

/** In words, with the command that repeats what the service asked. */
export async function explained(db: DatabasePool, { kind, data }: AccountFailure) {
  const id = 'authorization_id' in data ? data.authorization_id : undefined
  const evidence = id === undefined ? null : await evidenceOf(db, id)
  return explainFailure({ kind, data }, evidence ? foundIn(evidence) : {})
}

/** The port that was connected to, and the DNS record that was looked up. */
function foundIn(evidence: Readonly<Record<string, unknown>>) {
  const steps = Array.isArray(evidence['steps']) ? (evidence['steps'] as Readonly<Record<string, unknown>>[]) : []
  const port = steps.map((step) => step?.['port']).find((one) => typeof one === 'number')
  const record = steps.find((step) => step?.['step'] === 'looked-up')?.['name']
  return { port, record: typeof record === 'string' ? record : undefined }
}

const isBefore = (at: Fragment, before: Date | undefined): Fragment =>
  before ? sql.fragment`${at} < ${instant(before)}` : sql.fragment`${at} IS NOT NULL`

const Certificate = BasicCertificate.extend({
  /** When the event happened that was asked for. */
  at: z.date(),
  /** The certID that its order has named (RFC 9773 §5). */
  replaces: z.string().nullable(),
})
export type NamedCertificate = z.infer<typeof Certificate>

/** Revocations are in whole seconds, and so may seem to come before what was revoked. */
const REVOKED = sql.fragment`CASE WHEN c.revoked_at IS NOT NULL THEN greatest(c.revoked_at, c.issued_at) END`

/** @param by the instant of what is wanted: its issuance, its revocation, or its end */
export function certificatesOfNames(
  db: CommonQueryMethods,
  { names, before, scope, limit }: HistoryPart,
  by: 'issued_at' | 'revoked_at' | 'not_after',
): Promise<readonly NamedCertificate[]> {
  const at = by === 'revoked_at' ? REVOKED : sql.fragment`c.${sql.identifier([by])}`
  return db.any(rowsOf(Certificate)`
    SELECT ${BASIC_COLUMNS}, ${at} AS at, (SELECT replaces FROM orders WHERE id = c.order_id) AS replaces
      FROM (SELECT * FROM certificates c WHERE c.names && ${sql.array([...names], 'text')} OFFSET 0) c
     WHERE ${isBefore(at, before)} AND ${isAccountInScope(sql.fragment`c.account_id`, scope)}
     ORDER BY ${at} DESC, c.id DESC LIMIT ${limit}`)
}

export function failuresOfNames(
  db: CommonQueryMethods,
  { names, before, scope, limit }: HistoryPart,
): Promise<readonly AccountFailure[]> {
  return db.any(rowsOf(Failure)`
    SELECT f.account_id, f.event_id, f.kind, f.occurred_at, f.data
      FROM (SELECT * FROM account_failures WHERE failure_names(data) && ${sql.array([...names], 'text')} OFFSET 0) f
     WHERE ${isBefore(sql.fragment`f.occurred_at`, before)} AND ${isAccountInScope(sql.fragment`f.account_id`, scope)}
     ORDER BY f.occurred_at DESC, f.event_id DESC LIMIT ${limit}`)
}

const Id = z.object({ id: z.string() })

/** An order and the authorizations that it made have one time in their ids. */
const TOGETHER_MS = 1_000

/**
 * Orders that a certificate or a failure of the names leads to, the newest first. An authorization that failed leads to
 * its order by account and time: orders_account.
 */
async function ordersOfNames(
  db: CommonQueryMethods,
  { names, before, scope, limit }: HistoryPart,
  failures: readonly AccountFailure[],
): Promise<readonly ListedOrder[]> {
  const failed = failures.flatMap(({ account_id, data }) => {
    const id = 'authorization_id' in data ? data.authorization_id : undefined
    if (id === undefined || !isUuid(id)) return []
    const ms = uuidTime(id).getTime()
    return [{ account_id, id, from: lowestUuidv7(ms - TOGETHER_MS), to: lowestUuidv7(ms + TOGETHER_MS) }]
  })
  const column = (member: keyof (typeof failed)[number]) => columnsOf(failed)((one) => one[member], 'uuid')
  const named = failures.flatMap(({ data }) => ('order_id' in data && isUuid(data.order_id ?? '') ? data.order_id : []))
  const ids = await db.any(rowsOf(Id)`
    SELECT id FROM (
      SELECT c.order_id AS id
        FROM (SELECT * FROM certificates c WHERE c.names && ${sql.array([...names], 'text')} OFFSET 0) c
      UNION
      SELECT unnest(${sql.array(named as string[], 'uuid')})
      UNION
      SELECT o.id FROM unnest(${column('account_id')}, ${column('id')}, ${column('from')}, ${column('to')}) AS f (account, authz, from_id, to_id)
        CROSS JOIN LATERAL (SELECT id FROM orders WHERE account_id = f.account AND id BETWEEN f.from_id AND f.to_id
                               AND f.authz = ANY (authorization_ids)) o) found
     WHERE id ${before ? sql.fragment`< ${lowestUuidv7(before.getTime())}` : sql.fragment`IS NOT NULL`}
     ORDER BY id DESC LIMIT ${limit}`)
  return ordersByIds(
    db,
    ids.map(({ id }) => id),
    scope,
  )
}

/** orders_pkey */
const ordersByIds = (db: CommonQueryMethods, ids: readonly string[], scope: Scope) =>
  db.any(rowsOf(ListedOrderRow)`
    SELECT ${ORDER_COLUMNS}
      FROM orders o ${derivedStatus} WHERE o.id = ANY (${sql.array([...ids], 'uuid')})
       AND ${isAccountInScope(sql.fragment`o.account_id`, scope)}`)

const Validation = z.object({
  order_id: z.string().nullable(),
  id: z.string(),
  identifier_value: z.string(),
  wildcard: z.boolean(),
  status: z.enum(AUTHORIZATION_STATUSES),
  /** Record of the attempt that decided (domain/validation-attempt.ts). */
  evidence: StoredFacts,
})
export type Validation = z.infer<typeof Validation>

/** Authorizations of these orders for one of the names. orders_pkey, authorizations_pkey */
const validationsOf = (db: CommonQueryMethods, orderIds: readonly string[], names: readonly string[]) =>
  db.any(rowsOf(Validation)`
    SELECT o.id AS order_id, z.id, z.identifier_value, z.wildcard, z.evidence, ${constantSql(STATUS_NOW)} AS status
      FROM orders o CROSS JOIN LATERAL (SELECT * FROM authorizations WHERE id = ANY (o.authorization_ids)) z
     WHERE o.id = ANY (${sql.array([...orderIds], 'uuid')})
       AND CASE WHEN z.wildcard THEN '*.' ELSE '' END || z.identifier_value = ANY (${sql.array([...names], 'text')})`)

const Evidence = z.object({ evidence: StoredFacts })

/** Reads the evidence of one authorization; null where nothing is recorded. authorizations_pkey */
async function evidenceOf(db: CommonQueryMethods, authorizationId: string) {
  const row = await db.maybeOne(rowsOf(Evidence)`SELECT evidence FROM authorizations WHERE id = ${authorizationId}`)
  return row?.evidence ?? null
}
