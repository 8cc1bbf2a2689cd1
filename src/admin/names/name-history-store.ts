/**
 * SQL of what has happened to a name. Certificates are found by certificates_names and failures by
 * account_failures_names; both are read whole, as few are of one name.
 */

import * as z from 'zod/v4'
import type { Scope } from '../../domain/permissions.ts'
import { AUTHORIZATION_STATUSES } from '../../domain/states.ts'
import { isUuid, lowestUuidv7, uuidTime } from '../../shared/lib/uuid.ts'
import { STATUS_NOW } from '../../store/authorization-row.ts'
import { type AccountFailure, Failure } from '../../store/event-statistics-store.ts'
import { type Fragment, instant, isAccountInScope } from '../../store/list-page.ts'
import { type CommonQueryMethods, columnsOf, constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { CertificateRow } from '../certificates/certificate-list.ts'
import { derivedStatus, type ListedOrder, ListedOrderRow, StoredFacts } from '../certificates/order-list.ts'

/** A part of the history: it happened before an instant, to one of the names. */
export interface HistoryPart {
  names: readonly string[]
  before: Date | undefined
  scope: Scope
  limit: number
}

const isBefore = (at: Fragment, before: Date | undefined): Fragment =>
  before ? sql.fragment`${at} < ${instant(before)}` : sql.fragment`${at} IS NOT NULL`

const Certificate = CertificateRow.omit({ issuer_fingerprint: true, fingerprint: true }).extend({
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
    SELECT c.id, c.account_id, c.order_id, encode(c.serial_number, 'hex') AS serial_number, c.names, c.not_before, c.not_after,
           c.issued_at, c.revoked_at, ${at} AS at, c.revocation_reason, (SELECT replaces FROM orders WHERE id = c.order_id) AS replaces
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
export async function ordersOfNames(
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
    SELECT o.id, o.account_id, derived.status, o.identifiers, o.expires_at, o.error, o.certificate_id
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
export const validationsOf = (db: CommonQueryMethods, orderIds: readonly string[], names: readonly string[]) =>
  db.any(rowsOf(Validation)`
    SELECT o.id AS order_id, z.id, z.identifier_value, z.wildcard, z.evidence, ${constantSql(STATUS_NOW)} AS status
      FROM orders o CROSS JOIN LATERAL (SELECT * FROM authorizations WHERE id = ANY (o.authorization_ids)) z
     WHERE o.id = ANY (${sql.array([...orderIds], 'uuid')})
       AND CASE WHEN z.wildcard THEN '*.' ELSE '' END || z.identifier_value = ANY (${sql.array([...names], 'text')})`)

const Evidence = z.object({ evidence: StoredFacts })

/** Reads the evidence of one authorization; null where nothing is recorded. authorizations_pkey */
export async function evidenceOf(db: CommonQueryMethods, authorizationId: string) {
  const row = await db.maybeOne(rowsOf(Evidence)`SELECT evidence FROM authorizations WHERE id = ${authorizationId}`)
  return row?.evidence ?? null
}
