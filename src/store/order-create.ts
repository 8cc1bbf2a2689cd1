/**
 * Builds the four statements that make orders and their missing authorizations.
 *
 * They differ by a predecessor (RFC 9773 §5) and by approval (approval.ts). An order needs a claim, a row that names
 * the order which answers this request. One of several equal requests inserts the claim. The others get its order id,
 * even if their snapshot lacks that order.
 *
 * Claims are taken in the order of their keys, so that two batches cannot deadlock.
 */

import { ALL_ALIVE, APPROVAL_EVIDENCE, approversOf, IS_APPROVED, reusableAuthorization } from './authorization-row.ts'
import type { Statement } from './database.ts'
import { account, authorization, order } from './status-sql.ts'

/** Whether an order `d` is invalid for good, even if its row says `open` (domain/states.ts). */
const IS_INVALID = `
  (d.status ${order.is('invalid')} OR d.status ${order.is('open')} AND (d.expires_at <= now() OR NOT ${ALL_ALIVE('d')}))`

// accounts_pkey, order_claims_pkey, and authorizations_reusable for each identifier; then the
// inserts. Where a claim exists, orders_pkey, and authorizations_pkey for each of its identifiers.
const CLAIM = `
      INSERT INTO order_claims AS c (request_key, order_id, expires_at)
      SELECT request_key, id, expires_at FROM o ORDER BY request_key
      ON CONFLICT (request_key) DO UPDATE
         SET (order_id, expires_at) = (
               SELECT CASE WHEN free THEN excluded.order_id ELSE c.order_id END,
                      CASE WHEN free THEN excluded.expires_at ELSE c.expires_at END
                 FROM (SELECT c.expires_at <= now() OR EXISTS (
                                SELECT FROM orders d
                                 WHERE d.id = c.order_id AND (d.status ${order.isNot('open')} OR ${IS_INVALID})) AS free) f)
      RETURNING request_key AS claim_key, request_key, order_id`

// The same by replacements_pkey in place of order_claims_pkey.
const CLAIM_REPLACEMENT = `
      INSERT INTO replacements AS c (certificate_id, order_id, request_key)
      SELECT replaced, id, request_key FROM o ORDER BY replaced
      ON CONFLICT (certificate_id) DO UPDATE
         SET (order_id, request_key) = (
               SELECT CASE WHEN free THEN excluded.order_id ELSE c.order_id END,
                      CASE WHEN free THEN excluded.request_key ELSE c.request_key END
                 FROM (SELECT EXISTS (SELECT FROM orders d WHERE d.id = c.order_id AND ${IS_INVALID}) AS free) f)
      RETURNING certificate_id AS claim_key, request_key, order_id`

/** The requested orders, parameters 1 to 12 and 21, in the order of `createParameters` (order-store.ts). */
const ORDER_ARRAYS = `$1::uuid[], $2::uuid[], $3::integer[], $4::jsonb[], $5::text[], $6::timestamptz[], $7::timestamptz[],
                    $8::timestamptz[], $9::timestamptz[], $10::uuid[], $11::uuid[], $12::text[], $21::boolean[]`
const ORDER_COLUMNS = `id, account_id, key_version, identifiers, profile, not_before, not_after, expires_at, reuse_until,
                request_key, replaced, replaces, is_exempt`
const OF_ITS_ACCOUNT = `
        JOIN accounts a ON a.id = i.account_id AND a.key_version = i.key_version AND a.status ${account.is('valid')}`

/** The authorizations to make, parameters 13 to 20: each `n` with its order `i`, if that has the claim. */
const CANDIDATES = `
        FROM unnest($13::integer[], $14::uuid[], $15::text[], $16::text[], $17::boolean[], $18::text[], $19::text[],
                    $20::timestamptz[]) WITH ORDINALITY
          AS n (ord, id, type, value, wildcard, token, offered, expires_at, position)
        JOIN o i USING (ord) JOIN claim ON claim.order_id = i.id`

const AUTHORIZATION_COLUMNS = 'id, account_id, identifier_type, identifier_value, wildcard, expires_at, token, offered'
const AUTHORIZATION_VALUES = "id, account_id, type, value, wildcard, expires_at, token, string_to_array(offered, ' ')"

/** The authorizations of each order, made or reused, in the order of its identifiers. */
const LINKED_IDS = 'ord, order_id, array_agg(coalesce(reused, id) ORDER BY position) AS ids'

const ORDERS_MADE = `orders_made AS (
      INSERT INTO orders (id, account_id, identifiers, authorization_ids, profile, not_before, not_after, expires_at,
                          request_key, replaces, is_exempt)
      SELECT id, account_id, identifiers, ids, profile, not_before, not_after, expires_at, request_key, replaces, is_exempt
        FROM linked JOIN o USING (ord)
    )`

/** Never reuses an authorization approved without a challenge: this order requires the challenge. */
const createOrders = (name: string, claim: string): Statement => ({
  name,
  text: `
    WITH o AS (
      SELECT i.*, coalesce(replaced, request_key) AS claim_key
        FROM unnest(${ORDER_ARRAYS}) WITH ORDINALITY AS i (${ORDER_COLUMNS}, ord) ${OF_ITS_ACCOUNT}
    ), claim AS (${claim}
    ), z AS (
      SELECT n.*, i.account_id, i.id AS order_id, (${reusableAuthorization('r.id', 'NOT r.approved')}) AS reused ${CANDIDATES}
    ), made AS (
      INSERT INTO authorizations (${AUTHORIZATION_COLUMNS})
      SELECT ${AUTHORIZATION_VALUES} FROM z WHERE reused IS NULL
    ), linked AS (
      SELECT ${LINKED_IDS}, bool_and(reused IS NOT NULL) AS ready FROM z GROUP BY ord, order_id
    ), ${ORDERS_MADE}
    SELECT claim_key, order_id, request_key, ids, ready FROM claim LEFT JOIN linked USING (order_id)`,
})

/** `createOrders` with parameters 22 and 23, which may approve authorizations (approval.ts). */
const createApprovedOrders = (name: string, claim: string): Statement => ({
  name,
  text: `
    WITH o AS (
      SELECT i.*, coalesce(replaced, request_key) AS claim_key, address_text::inet AS address
        FROM unnest(${ORDER_ARRAYS}, $22::text[], $23::jsonb[])
             WITH ORDINALITY AS i (${ORDER_COLUMNS}, address_text, record, ord) ${OF_ITS_ACCOUNT}
    ), claim AS (${claim}
    ), approver AS MATERIALIZED (${approversOf('(SELECT o.* FROM o JOIN claim ON claim.order_id = o.id)')}
    ), z AS (
      SELECT n.*, i.account_id, i.id AS order_id, ${IS_APPROVED} AS approved, ${APPROVAL_EVIDENCE} AS evidence,
             (${reusableAuthorization('r.id', `(NOT r.approved OR ${IS_APPROVED})`)}) AS reused ${CANDIDATES}
        LEFT JOIN approver p USING (ord)
    ), made AS (
      INSERT INTO authorizations (${AUTHORIZATION_COLUMNS}, status, approved, evidence)
      SELECT ${AUTHORIZATION_VALUES},
             CASE WHEN approved THEN ${authorization.of('valid')} ELSE ${authorization.of('pending')} END, approved,
             CASE WHEN approved THEN evidence END
        FROM z WHERE reused IS NULL
    ), linked AS (
      SELECT ${LINKED_IDS}, bool_and(reused IS NOT NULL OR approved) AS ready,
             array_agg(CASE WHEN wildcard THEN '*.' || value ELSE value END) FILTER (WHERE reused IS NULL AND approved)
               AS approved_values
        FROM z GROUP BY ord, order_id
    ), ${ORDERS_MADE}
    SELECT claim_key, order_id, request_key, ids, ready, approved_values, p.kid, p.network::text
      FROM claim LEFT JOIN linked USING (order_id) LEFT JOIN approver p USING (ord)`,
})

/** The approved forms also read eab_credentials_pkey and the credential's allowlist. */
export const CREATE = {
  original: createOrders('order-create', CLAIM),
  replacement: createOrders('order-create-replacement', CLAIM_REPLACEMENT),
  approvedOriginal: createApprovedOrders('order-create-approved', CLAIM),
  approvedReplacement: createApprovedOrders('order-create-approved-replacement', CLAIM_REPLACEMENT),
}
