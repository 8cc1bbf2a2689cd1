/** SQL of orders. */

import type { AuthorizationStatus } from '../domain/authorization-state.ts'
import { type OrderStatus, orderStatus, type StoredOrderStatus } from '../domain/order-state.ts'
import type { Order } from '../domain/records.ts'
import type { Batched } from '../lib/batcher.ts'
import type { ChallengeType } from '../protocol/challenge.ts'
import type { Identifier } from '../protocol/identifier.ts'
import type { ProblemDocument } from '../protocol/problem.ts'
import { type Requester, STALE_ACCOUNT, type StaleAccount } from './account-store.ts'
import { batched, type Database, type Statement } from './database.ts'

/** An authorization to be made unless the account has a valid one for the same identifier. */
export interface AuthorizationCandidate {
  id: string
  identifier: Identifier
  wildcard: boolean
  token: string
  offered: readonly ChallengeType[]
  expiresAt: Date
}

export interface NewOrder {
  id: string
  requester: Requester
  identifiers: readonly Identifier[]
  profile: string
  notBefore: Date | undefined
  notAfter: Date | undefined
  expiresAt: Date
  authorizations: readonly AuthorizationCandidate[]
  /** A valid authorization is reused only if it outlives this instant. */
  reuseUntil: Date
}

export interface OrderStore {
  /** Makes an order and the authorizations it lacks, in one statement with those of other requests. */
  create: Batched<NewOrder, Order | StaleAccount>
  find: Batched<{ requester: Requester; orderId: string }, Order | StaleAccount | undefined>
  /** Ids of an account's orders that are not invalid, newest last, after `after`. */
  list(requester: Requester, after: string | undefined, limit: number): Promise<string[] | StaleAccount>
}

const CREATE: Statement = {
  name: 'order-create',
  // accounts_pkey and, for each identifier, authorizations_reusable; then the inserts.
  text: `
    WITH o AS (
      SELECT i.*
        FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::jsonb[], $5::text[], $6::timestamptz[], $7::timestamptz[],
                    $8::timestamptz[], $9::timestamptz[]) WITH ORDINALITY
          AS i (id, account_id, key_version, identifiers, profile, not_before, not_after, expires_at, reuse_until, ord)
        JOIN accounts a ON a.id = i.account_id AND a.key_version = i.key_version AND a.status = 'valid'
    ), z AS (
      SELECT n.*, o.account_id,
             (SELECT r.id FROM authorizations r
               WHERE r.account_id = o.account_id AND r.identifier_value = n.value AND r.identifier_type = n.type
                 AND r.wildcard = n.wildcard AND r.status = 'valid' AND r.expires_at > o.reuse_until
               ORDER BY r.expires_at DESC LIMIT 1) AS reused
        FROM unnest($10::integer[], $11::uuid[], $12::text[], $13::text[], $14::boolean[], $15::text[], $16::text[],
                    $17::timestamptz[]) WITH ORDINALITY
          AS n (ord, id, type, value, wildcard, token, offered, expires_at, position)
        JOIN o USING (ord)
    ), made AS (
      INSERT INTO authorizations
             (id, account_id, identifier_type, identifier_value, wildcard, expires_at, token, offered)
      SELECT id, account_id, type, value, wildcard, expires_at, token, string_to_array(offered, ' ')
        FROM z WHERE reused IS NULL
    ), linked AS (
      SELECT ord, array_agg(coalesce(reused, id) ORDER BY position) AS ids, bool_and(reused IS NOT NULL) AS ready
        FROM z GROUP BY ord
    ), orders_made AS (
      INSERT INTO orders (id, account_id, identifiers, authorization_ids, profile, not_before, not_after, expires_at)
      SELECT id, account_id, identifiers, ids, profile, not_before, not_after, expires_at FROM o JOIN linked USING (ord)
    )
    SELECT ord::integer, ids, ready FROM linked`,
}

const FIND: Statement = {
  name: 'order-find',
  // accounts_pkey, orders_pkey, authorizations_pkey while the order is open, account_csr_profiles_pkey.
  text: `
    SELECT i.ord::integer, a.id IS NULL AS stale, o.id, o.account_id, o.status, o.identifiers, o.authorization_ids,
           o.profile, o.not_before, o.not_after, o.expires_at, o.error, o.certificate_id, z.statuses, p.csr_profile_id
      FROM unnest($1::uuid[], $2::uuid[], $3::integer[]) WITH ORDINALITY AS i (order_id, account_id, key_version, ord)
      LEFT JOIN accounts a ON a.id = i.account_id AND a.key_version = i.key_version AND a.status = 'valid'
      LEFT JOIN orders o ON o.id = i.order_id
      LEFT JOIN account_csr_profiles p ON p.account_id = a.id
      LEFT JOIN LATERAL (
        SELECT array_agg(CASE WHEN status IN ('pending', 'valid') AND expires_at <= now() THEN 'expired' ELSE status END)
                 AS statuses
          FROM authorizations WHERE o.status = 'open' AND id = ANY (o.authorization_ids)
      ) z ON true`,
}

const LIST: Statement = {
  name: 'order-list',
  // accounts_pkey; orders_account, one range; authorizations_pkey for its open orders. No row: the account is stale.
  text: `
    SELECT page.id
      FROM accounts a
      LEFT JOIN LATERAL (
        SELECT o.id FROM orders o
         WHERE o.account_id = a.id AND o.id > coalesce($3, '00000000-0000-0000-0000-000000000000'::uuid)
           AND (o.status IN ('processing', 'valid')
                OR o.status = 'open' AND o.expires_at > now()
                   AND NOT EXISTS (
                     SELECT FROM authorizations z
                      WHERE z.id = ANY (o.authorization_ids)
                        AND NOT (z.status IN ('pending', 'valid') AND z.expires_at > now())))
         ORDER BY o.id LIMIT $4
      ) page ON true
     WHERE a.id = $1 AND a.key_version = $2 AND a.status = 'valid'`,
}

interface OrderRow {
  ord: number
  stale: boolean
  id: string | null
  account_id: string
  status: StoredOrderStatus
  identifiers: Identifier[]
  authorization_ids: string[]
  profile: string
  not_before: Date | null
  not_after: Date | null
  expires_at: Date
  error: ProblemDocument | null
  certificate_id: string | null
  statuses: AuthorizationStatus[] | null
  csr_profile_id: string | null
}

export function createOrderStore(db: Database): OrderStore {
  return {
    create: batched(async (commands: readonly NewOrder[]) => {
      const authorizations = commands.flatMap((command, i) => command.authorizations.map((z) => ({ ...z, ord: i + 1 })))
      const rows = await db.query<{ ord: number; ids: string[]; ready: boolean }>(CREATE, [
        commands.map((c) => c.id),
        commands.map((c) => c.requester.accountId),
        commands.map((c) => c.requester.keyVersion),
        commands.map((c) => JSON.stringify(c.identifiers)),
        commands.map((c) => c.profile),
        commands.map((c) => c.notBefore?.toISOString() ?? null),
        commands.map((c) => c.notAfter?.toISOString() ?? null),
        commands.map((c) => c.expiresAt.toISOString()),
        commands.map((c) => c.reuseUntil.toISOString()),
        authorizations.map((z) => z.ord),
        authorizations.map((z) => z.id),
        authorizations.map((z) => z.identifier.type),
        authorizations.map((z) => z.identifier.value),
        authorizations.map((z) => z.wildcard),
        authorizations.map((z) => z.token),
        authorizations.map((z) => z.offered.join(' ')),
        authorizations.map((z) => z.expiresAt.toISOString()),
      ])
      const results: (Order | StaleAccount)[] = commands.map(() => STALE_ACCOUNT)
      for (const { ord, ids, ready } of rows) {
        results[ord - 1] = made(commands[ord - 1] as NewOrder, ids, ready ? 'ready' : 'pending')
      }
      return results
    }),

    find: batched(async (commands) => {
      const rows = await db.query<OrderRow>(FIND, [
        commands.map((c) => c.orderId),
        commands.map((c) => c.requester.accountId),
        commands.map((c) => c.requester.keyVersion),
      ])
      const now = new Date()
      const results: (Order | StaleAccount | undefined)[] = commands.map(() => undefined)
      for (const row of rows)
        results[row.ord - 1] = row.stale ? STALE_ACCOUNT : row.id === null ? undefined : decode(row, now)
      return results
    }),

    async list({ accountId, keyVersion }, after, limit) {
      const rows = await db.query<{ id: string | null }>(LIST, [accountId, keyVersion, after ?? null, limit])
      return rows.length === 0 ? STALE_ACCOUNT : rows.flatMap(({ id }) => id ?? [])
    },
  }
}

function made(command: NewOrder, authorizationIds: string[], status: OrderStatus): Order {
  return {
    id: command.id,
    accountId: command.requester.accountId,
    status,
    identifiers: command.identifiers,
    authorizationIds,
    profile: command.profile,
    expiresAt: command.expiresAt,
    ...(command.notBefore && { notBefore: command.notBefore }),
    ...(command.notAfter && { notAfter: command.notAfter }),
  }
}

function decode(row: OrderRow, now: Date): Order {
  const facts = { stored: row.status, expiresAt: row.expires_at, authorizations: row.statuses ?? [] }
  return {
    id: row.id as string,
    accountId: row.account_id,
    status: orderStatus(facts, now),
    identifiers: row.identifiers,
    authorizationIds: row.authorization_ids,
    profile: row.profile,
    expiresAt: row.expires_at,
    ...(row.not_before && { notBefore: row.not_before }),
    ...(row.not_after && { notAfter: row.not_after }),
    ...(row.error && { error: row.error }),
    ...(row.certificate_id && { certificateId: row.certificate_id }),
    ...(row.csr_profile_id && { csrProfileId: row.csr_profile_id }),
  }
}
