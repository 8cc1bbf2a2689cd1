/**
 * The statement that makes orders with the authorizations they lack, in its four forms: with or without a predecessor (RFC
 * 9773 §5), with or without the chance that authorizations are valid at once (approval.ts).
 *
 * Orders are made only under a claim: a row that says which order answers this request. Of several that arrive at once, on
 * whatever threads and instances, one inserts the row, and the others get its order id, even where their snapshot is older
 * than that order: an order that cannot be seen yet does not count as gone. Rows are claimed in the order of their keys, so
 * that two batches cannot wait for each other.
 */

import { APPROVAL_EVIDENCE, approversOf, IS_APPROVED } from './approval.ts'
import { ALL_ALIVE, reusableAuthorization } from './authorization-row.ts'
import type { Statement } from './database.ts'
import { account, authorization, order } from './status-sql.ts'

/** An order that is invalid for good, though its row may still say `open` (domain/order-state.ts). */
const IS_INVALID = `
  (d.status ${order.is('invalid')} OR d.status ${order.is('open')} AND (d.expires_at <= now() OR NOT ${ALL_ALIVE('d')}))`

/** What is put into the statement where authorizations may be made valid. */
interface Approving {
  parameters: string
  columns: string
  address: string
  approvers: string
  /** Columns of an authorization to be made, and where they come from. */
  candidate: string
  join: string
  reusable: string
  /** Columns and values of the rows inserted. */
  inserted: readonly [string, string]
  isReady: string
  linked: string
  result: string
}

/** What is valid without a challenge is not handed on to an order that would have needed one. */
const ORDINARY: Approving = {
  parameters: '',
  columns: '',
  address: '',
  approvers: '',
  candidate: '',
  join: '',
  reusable: 'NOT r.approved',
  inserted: ['', ''],
  isReady: 'reused IS NOT NULL',
  linked: '',
  result: '',
}

const APPROVING: Approving = {
  parameters: ', $22::text[], $23::jsonb[]',
  columns: ', address_text, record',
  address: ', address_text::inet AS address',
  approvers: `, approver AS MATERIALIZED (${approversOf('(SELECT o.* FROM o JOIN claim ON claim.order_id = o.id)')}
    )`,
  candidate: `
             ${IS_APPROVED} AS approved,
             ${APPROVAL_EVIDENCE} AS evidence,`,
  join: 'LEFT JOIN approver p USING (ord)',
  reusable: `(NOT r.approved OR ${IS_APPROVED})`,
  inserted: [
    ', status, approved, evidence',
    `,
             CASE WHEN approved THEN ${authorization.of('valid')} ELSE ${authorization.of('pending')} END, approved, CASE WHEN approved THEN evidence END`,
  ],
  isReady: 'reused IS NOT NULL OR approved',
  linked:
    ", array_agg(CASE WHEN wildcard THEN '*.' || value ELSE value END) FILTER (WHERE reused IS NULL AND approved) AS approved_values",
  result: ', approved_values, p.kid, p.network::text',
}

const createStatement = (name: string, claim: string, approving: Approving): Statement => ({
  name,
  text: `
    WITH o AS (
      SELECT i.*, coalesce(replaced, request_key) AS claim_key${approving.address}
        FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::jsonb[], $5::text[], $6::timestamptz[], $7::timestamptz[],
                    $8::timestamptz[], $9::timestamptz[], $10::uuid[], $11::uuid[], $12::text[], $21::boolean[]${approving.parameters}) WITH ORDINALITY
          AS i (id, account_id, key_version, identifiers, profile, not_before, not_after, expires_at, reuse_until,
                request_key, replaced, replaces, is_exempt${approving.columns}, ord)
        JOIN accounts a ON a.id = i.account_id AND a.key_version = i.key_version AND a.status ${account.is('valid')}
    ), claim AS (${claim}
    )${approving.approvers}, z AS (
      SELECT n.*, i.account_id, i.id AS order_id,${approving.candidate}
             (${reusableAuthorization('r.id', approving.reusable)}) AS reused
        FROM unnest($13::integer[], $14::uuid[], $15::text[], $16::text[], $17::boolean[], $18::text[], $19::text[],
                    $20::timestamptz[]) WITH ORDINALITY
          AS n (ord, id, type, value, wildcard, token, offered, expires_at, position)
        JOIN o i USING (ord) JOIN claim ON claim.order_id = i.id ${approving.join}
    ), made AS (
      INSERT INTO authorizations
             (id, account_id, identifier_type, identifier_value, wildcard, expires_at, token, offered${approving.inserted[0]})
      SELECT id, account_id, type, value, wildcard, expires_at, token, string_to_array(offered, ' ')${approving.inserted[1]}
        FROM z WHERE reused IS NULL
    ), linked AS (
      SELECT ord, order_id, array_agg(coalesce(reused, id) ORDER BY position) AS ids, bool_and(${approving.isReady}) AS ready${approving.linked}
        FROM z GROUP BY ord, order_id
    ), orders_made AS (
      INSERT INTO orders (id, account_id, identifiers, authorization_ids, profile, not_before, not_after, expires_at,
                          request_key, replaces, is_exempt)
      SELECT id, account_id, identifiers, ids, profile, not_before, not_after, expires_at, request_key, replaces, is_exempt
        FROM linked JOIN o USING (ord)
    )
    SELECT claim_key, order_id, request_key, ids, ready${approving.result}
      FROM claim LEFT JOIN linked USING (order_id) ${approving.join}`,
})

// accounts_pkey, order_claims_pkey and, for each identifier, authorizations_reusable; then the inserts. Where a claim is
// met, orders_pkey, and authorizations_pkey for each of its identifiers.
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

// As above, with replacements_pkey in place of order_claims_pkey.
const CLAIM_REPLACEMENT = `
      INSERT INTO replacements AS c (certificate_id, order_id, request_key)
      SELECT replaced, id, request_key FROM o ORDER BY replaced
      ON CONFLICT (certificate_id) DO UPDATE
         SET (order_id, request_key) = (
               SELECT CASE WHEN free THEN excluded.order_id ELSE c.order_id END,
                      CASE WHEN free THEN excluded.request_key ELSE c.request_key END
                 FROM (SELECT EXISTS (SELECT FROM orders d WHERE d.id = c.order_id AND ${IS_INVALID}) AS free) f)
      RETURNING certificate_id AS claim_key, request_key, order_id`

/** With approval, eab_credentials_pkey and the credential's allowlist besides. */
export const CREATE = {
  original: createStatement('order-create', CLAIM, ORDINARY),
  replacement: createStatement('order-create-replacement', CLAIM_REPLACEMENT, ORDINARY),
  approvedOriginal: createStatement('order-create-approved', CLAIM, APPROVING),
  approvedReplacement: createStatement('order-create-approved-replacement', CLAIM_REPLACEMENT, APPROVING),
}
