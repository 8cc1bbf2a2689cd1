/** SQL of authorizations; the challenges inside them have `challenge-store.ts`. */

import type { Approval } from '../domain/allowlist.ts'
import type { Authorization } from '../domain/records.ts'
import type { Batched } from '../shared/lib/batcher.ts'
import { type Requester, STALE_ACCOUNT, type StaleAccount } from './account-store.ts'
import {
  APPROVAL_EVIDENCE,
  type Approved,
  type ApproverRow,
  type AuthorizationRow,
  approvedBy,
  approversOf,
  COLUMNS,
  decode,
  IS_APPROVED,
  reusableAuthorization,
} from './authorization-row.ts'
import { resultsByOrd, unlessStale } from './batch-results.ts'
import { type ChallengeStore, createChallengeStore } from './challenge-store.ts'
import { batched, type Database, type Statement } from './database.ts'
import type { AuthorizationCandidate } from './order-store.ts'
import { account, authorization } from './status-sql.ts'

interface PreAuthorization {
  requester: Requester
  candidate: AuthorizationCandidate
  reuseUntil: Date
  approval?: Approval | undefined
}

export interface AuthorizationStore extends ChallengeStore {
  find: Batched<{ requester: Requester; authorizationId: string }, Authorization | StaleAccount | undefined>
  /**
   * Pre-authorization (RFC 8555 §7.4.1); `approved` where it is valid at once. Returns instead the
   * account's valid authorization for the identifier, if that outlives `reuseUntil`.
   */
  create(wanted: PreAuthorization): Promise<{ authorization: Authorization; approved?: Approved } | StaleAccount>
  /** Pending or valid → deactivated (RFC 8555 §7.5.2); undefined when it was neither. */
  deactivate(requester: Requester, authorizationId: string): Promise<Authorization | undefined>
}

const FIND: Statement = {
  name: 'authorization-find',
  // accounts_pkey, authorizations_pkey
  text: `
    SELECT i.ord::integer, a.id IS NULL AS stale, ${COLUMNS}
      FROM unnest($1::uuid[], $2::uuid[], $3::integer[]) WITH ORDINALITY AS i (id, account_id, key_version, ord)
      LEFT JOIN accounts a ON a.id = i.account_id AND a.key_version = i.key_version AND a.status ${account.is('valid')}
      LEFT JOIN authorizations z ON z.id = i.id`,
}

/** Parameters 1 to 10: the account and its key's version, the candidate, and `reuseUntil`. */
const CANDIDATE = '(id, account_id, identifier_type, identifier_value, wildcard, expires_at, token, offered'

const CREATE: Statement = {
  name: 'authorization-create',
  // accounts_pkey, authorizations_reusable
  text: `
    WITH i AS (
      SELECT id AS account_id, $10::timestamptz AS reuse_until FROM accounts WHERE id = $1 AND key_version = $2
         AND status ${account.is('valid')}
    ), n AS (
      SELECT $3::uuid AS id, $4::text AS type, $5::text AS value, $6::boolean AS wildcard
    ), reused AS (
      SELECT r.* FROM i CROSS JOIN n CROSS JOIN LATERAL (${reusableAuthorization('r.*', 'NOT r.approved')}) r
    ), made AS (
      INSERT INTO authorizations ${CANDIDATE})
      SELECT id, account_id, type, value, wildcard, $7, $8, $9 FROM i, n WHERE NOT EXISTS (SELECT FROM reused)
      RETURNING *
    )
    SELECT ${COLUMNS} FROM (SELECT * FROM reused UNION ALL SELECT * FROM made) z`,
}

const CREATE_APPROVED: Statement = {
  name: 'authorization-create-approved',
  // accounts_pkey, eab_credentials_pkey, the credential's allowlist, authorizations_reusable
  text: `
    WITH i AS (
      SELECT 1 AS ord, a.id AS account_id, $10::timestamptz AS reuse_until, $11::inet AS address, $12::jsonb AS record
        FROM accounts a WHERE a.id = $1 AND a.key_version = $2 AND a.status ${account.is('valid')}
    ), approver AS MATERIALIZED (${approversOf('i')}
    ), n AS (
      SELECT $3::uuid AS id, $4::text AS type, $5::text AS value, $6::boolean AS wildcard
    ), judged AS (
      SELECT n.*, i.account_id, i.reuse_until, p.kid, p.network, ${IS_APPROVED} AS approvable, ${APPROVAL_EVIDENCE} AS evidence
        FROM n CROSS JOIN i LEFT JOIN approver p USING (ord)
    ), reused AS (
      SELECT r.* FROM judged i CROSS JOIN n
       CROSS JOIN LATERAL (${reusableAuthorization('r.*', '(NOT r.approved OR i.approvable)')}) r
    ), made AS (
      INSERT INTO authorizations ${CANDIDATE}, status, approved, evidence)
      SELECT id, account_id, type, value, wildcard, $7, $8, $9,
             CASE WHEN approvable THEN ${authorization.of('valid')} ELSE ${authorization.of('pending')} END, approvable,
             CASE WHEN approvable THEN evidence END
        FROM judged WHERE NOT EXISTS (SELECT FROM reused)
      RETURNING *
    )
    SELECT ${COLUMNS}, z.approved, judged.kid, judged.network::text
      FROM (SELECT * FROM reused UNION ALL SELECT * FROM made) z, judged`,
}

const DEACTIVATE: Statement = {
  name: 'authorization-deactivate',
  text: `
    UPDATE authorizations z SET status = ${authorization.after('deactivate')}, validating_by = NULL, validating_since = NULL
      FROM accounts a
     WHERE z.id = $3 AND z.account_id = $1 AND a.id = $1 AND a.key_version = $2 AND a.status ${account.is('valid')}
       AND z.status ${authorization.allows('deactivate')} AND z.expires_at > now()
    RETURNING ${COLUMNS}`,
}

type ApprovedRow = AuthorizationRow & { approved?: boolean } & ApproverRow

export function createAuthorizationStore(db: Database): AuthorizationStore {
  const find: AuthorizationStore['find'] = batched(db, async (commands) => {
    const rows = await db.pipeline.run<AuthorizationRow & { ord: number; stale: boolean }>(FIND, [
      commands.map((c) => c.authorizationId),
      commands.map((c) => c.requester.accountId),
      commands.map((c) => c.requester.keyVersion),
    ])
    return resultsByOrd(rows, commands, unlessStale(decode))
  })

  return {
    ...createChallengeStore(db),
    find,

    async create({ requester, candidate, reuseUntil, approval }) {
      const values = [
        requester.accountId,
        requester.keyVersion,
        candidate.id,
        candidate.identifier.type,
        candidate.identifier.value,
        candidate.wildcard,
        candidate.expiresAt,
        candidate.token,
        candidate.offered,
        reuseUntil,
      ]
      const [row] = await (approval
        ? db.query<ApprovedRow>(CREATE_APPROVED, [...values, approval.address ?? null, JSON.stringify(approval.record)])
        : db.query<ApprovedRow>(CREATE, values))
      if (!row) return STALE_ACCOUNT
      const isMade = row.id === candidate.id
      const approved =
        approval && row.approved && isMade ? approvedBy(approval, row, [row.identifier_value]) : undefined
      return { authorization: decode(row), ...(approved && { approved }) }
    },

    async deactivate({ accountId, keyVersion }, authorizationId) {
      const rows = await db.query<AuthorizationRow>(DEACTIVATE, [accountId, keyVersion, authorizationId])
      return rows[0] && decode(rows[0])
    },
  }
}
