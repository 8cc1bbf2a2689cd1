/** SQL of `chancery inspect`: one order, certificate or account with all that belongs to it. */

import * as z from 'zod/v4'
import type { Scope } from '../../domain/permissions.ts'
import { AUTHORIZATION_STATUSES, ORDER_STATUSES, STORED_ORDER_STATUSES } from '../../domain/states.ts'
import { STATUS_NOW } from '../../store/authorization-row.ts'
import { isAccountInScope, isInScope } from '../../store/list-page.ts'
import { type CommonQueryMethods, constantSql, rowsOf, sql } from '../../store/slonik.ts'
import { CertificateRow } from './certificate-list.ts'
import { derivedStatus, ListedOrderRow, StoredFacts } from './order-list.ts'

const Order = ListedOrderRow.extend({
  status: z.enum(STORED_ORDER_STATUSES),
  authorization_ids: z.array(z.string()),
  profile: z.string(),
  not_before: z.date().nullable(),
  not_after: z.date().nullable(),
})
type InspectedOrder = z.infer<typeof Order>

/** Another release may have written it: what cannot be read is left out. */
const Attempt = z
  .object({
    status: z.string().catch('unknown'),
    tries: z.int().catch(0),
    validated: z.string().optional().catch(undefined),
    error: StoredFacts.optional(),
  })
  .catch({ status: 'unknown', tries: 0 })

const Authorization = z.object({
  id: z.string(),
  account_id: z.string(),
  identifier_type: z.string(),
  identifier_value: z.string(),
  wildcard: z.boolean(),
  status: z.enum(AUTHORIZATION_STATUSES),
  expires_at: z.date(),
  token: z.string(),
  offered: z.array(z.string()),
  attempts: z.record(z.string(), Attempt).catch({}),
  /**
   * Record of the deciding attempt (src/domain/validation-attempt.ts), or of an approval without one
   * (src/domain/allowlist.ts).
   */
  evidence: StoredFacts,
})
export type InspectedAuthorization = z.infer<typeof Authorization>

const Certificate = CertificateRow.omit({ issuer_fingerprint: true, fingerprint: true, key_type: true }).extend({
  der: z.instanceof(Buffer),
})
export type InspectedCertificate = z.infer<typeof Certificate>

const Account = z.object({
  id: z.string(),
  status: z.string(),
  thumbprint: z.string(),
  contacts: z.array(z.string()),
  terms_agreed: z.boolean(),
  created_at: z.date(),
  allowed_profiles: z.array(z.string()).nullable(),
  preapproved_networks: z.array(z.string()).nullable(),
  /** Its URLs at former servers had these paths. */
  former_paths: z.array(z.string()),
  eab_kid: z.string().nullable(),
})
type InspectedAccount = z.infer<typeof Account>

const Count = z.object({ orders: z.int() })
const StatusCount = Count.extend({ status: z.enum(ORDER_STATUSES) })

/**
 * Bounds the count of an account's orders. The index keeps them together, but their statuses lie all over the table.
 */
export const MAX_COUNTED = 100_000
export const MAX_STATUSES_COUNTED = 1_000

export interface InspectStore {
  /** Includes its authorizations in the order of its identifiers, their statuses with expiry applied. */
  findOrder(
    id: string,
  ): Promise<{ order: InspectedOrder; authorizations: readonly InspectedAuthorization[] } | undefined>
  findAuthorization(id: string): Promise<InspectedAuthorization | undefined>
  findCertificate(id: string): Promise<InspectedCertificate | undefined>
  /** The newest. @param serialNumber lower-case hex without leading zero octets. */
  findCertificateBySerial(serialNumber: string): Promise<InspectedCertificate | undefined>
  findAccount(id: string): Promise<InspectedAccount | undefined>
  /** Counts an account's orders up to MAX_COUNTED, and its newest MAX_STATUSES_COUNTED by derived status. */
  countOrders(accountId: string): Promise<{ orders: number; newest: readonly z.infer<typeof StatusCount>[] }>
}

const certificateColumns = sql.fragment`
  id, account_id, order_id, encode(serial_number, 'hex') AS serial_number, names, not_before, not_after, der, issued_at,
  revoked_at, revocation_reason`

const authorizationColumns = sql.fragment`
  z.id, z.account_id, identifier_type, identifier_value, wildcard, expires_at, token, offered, attempts, evidence,
  ${constantSql(STATUS_NOW)} AS status`

/** @param scope of what is found: tags of which its account has one; undefined for all */
export function createInspectStore(db: CommonQueryMethods, scope?: Scope): InspectStore {
  const ofScope = isAccountInScope(sql.fragment`account_id`, scope)
  return {
    async findOrder(id) {
      const order = await db.maybeOne(rowsOf(Order)`
        SELECT id, account_id, status, identifiers, authorization_ids, profile, not_before, not_after, expires_at, error,
               certificate_id
          FROM orders WHERE id = ${id} AND ${ofScope}`)
      if (!order) return undefined
      const authorizations = await db.any(rowsOf(Authorization)`
        SELECT ${authorizationColumns}
          FROM unnest(${sql.array(order.authorization_ids, 'uuid')}) WITH ORDINALITY AS i (id, ord)
          JOIN authorizations z USING (id) ORDER BY ord`)
      return { order, authorizations }
    },

    async findAuthorization(id) {
      const row = await db.maybeOne(rowsOf(Authorization)`
        SELECT ${authorizationColumns} FROM authorizations z WHERE z.id = ${id} AND ${ofScope}`)
      return row ?? undefined
    },

    async findCertificate(id) {
      const row = await db.maybeOne(rowsOf(Certificate)`
        SELECT ${certificateColumns} FROM certificates WHERE id = ${id} AND ${ofScope}`)
      return row ?? undefined
    },

    async findCertificateBySerial(serialNumber) {
      const row = await db.maybeOne(rowsOf(Certificate)`
        SELECT ${certificateColumns} FROM certificates
         WHERE serial_number = decode(${serialNumber}, 'hex') AND ${ofScope} ORDER BY id DESC LIMIT 1`)
      return row ?? undefined
    },

    async findAccount(id) {
      const row = await db.maybeOne(rowsOf(Account)`
        SELECT a.id, a.status, a.thumbprint, a.contacts, a.terms_agreed, a.created_at, a.allowed_profiles,
               a.preapproved_networks::text[], c.kid AS eab_kid,
               ARRAY(SELECT p.path FROM account_paths p WHERE p.account_id = a.id ORDER BY p.path) AS former_paths
          FROM accounts a LEFT JOIN eab_credentials c ON c.id = a.eab_credential_id
         WHERE a.id = ${id} AND ${isInScope(sql.fragment`a`, scope)}`)
      return row ?? undefined
    },

    async countOrders(accountId) {
      const { orders } = await db.one(rowsOf(Count)`
        SELECT count(*)::integer AS orders FROM (
          SELECT FROM orders WHERE account_id = ${accountId} LIMIT ${MAX_COUNTED}) counted`)
      const newest = await db.any(rowsOf(StatusCount)`
        SELECT derived.status, count(*)::integer AS orders
          FROM (SELECT * FROM orders WHERE account_id = ${accountId} ORDER BY id DESC LIMIT ${MAX_STATUSES_COUNTED}) o
          ${derivedStatus}
         GROUP BY derived.status ORDER BY derived.status`)
      return { orders, newest }
    },
  }
}
