/** SQL of authorizations; that of the challenges inside them is in `challenge-store.ts`. */

import type { Approval } from '../domain/approval.ts'
import type { Authorization } from '../domain/records.ts'
import type { Batched } from '../shared/lib/batcher.ts'
import { type Requester, STALE_ACCOUNT, type StaleAccount } from './account-store.ts'
import { APPROVAL_EVIDENCE, type Approved, type ApproverRow, approvedBy, approversOf, IS_APPROVED } from './approval.ts'
import { type AuthorizationRow, COLUMNS, decode } from './authorization-row.ts'
import { type ChallengeStore, createChallengeStore } from './challenge-store.ts'
import { batched, type Database, type Statement } from './database.ts'
import type { AuthorizationCandidate } from './order-store.ts'

export interface AuthorizationStore extends ChallengeStore {
  find: Batched<{ requester: Requester; authorizationId: string }, Authorization | StaleAccount | undefined>
  /** Pre-authorization (RFC 8555 §7.4.1); `approved` where it is valid at once. */
  create(
    requester: Requester,
    candidate: AuthorizationCandidate,
    approval?: Approval,
  ): Promise<{ authorization: Authorization; approved?: Approved } | StaleAccount>
  /** Pending or valid → deactivated (RFC 8555 §7.5.2); undefined when it was neither. */
  deactivate(requester: Requester, authorizationId: string): Promise<Authorization | undefined>
}

const FIND: Statement = {
  name: 'authorization-find',
  // accounts_pkey, authorizations_pkey
  text: `
    SELECT i.ord::integer, a.id IS NULL AS stale, ${COLUMNS}
      FROM unnest($1::uuid[], $2::uuid[], $3::integer[]) WITH ORDINALITY AS i (id, account_id, key_version, ord)
      LEFT JOIN accounts a ON a.id = i.account_id AND a.key_version = i.key_version AND a.status = 'valid'
      LEFT JOIN authorizations z ON z.id = i.id`,
}

const CREATE: Statement = {
  name: 'authorization-create',
  text: `
    INSERT INTO authorizations AS z
           (id, account_id, identifier_type, identifier_value, wildcard, expires_at, token, offered)
    SELECT $3, a.id, $4, $5, $6, $7, $8, $9 FROM accounts a WHERE a.id = $1 AND a.key_version = $2 AND a.status = 'valid'
    RETURNING ${COLUMNS}`,
}

const CREATE_APPROVED: Statement = {
  name: 'authorization-create-approved',
  // accounts_pkey, eab_credentials_pkey, the credential's allowlist
  text: `
    WITH i AS (
      SELECT 1 AS ord, a.id AS account_id, $10::inet AS address, $11::jsonb AS record
        FROM accounts a WHERE a.id = $1 AND a.key_version = $2 AND a.status = 'valid'
    ), approver AS MATERIALIZED (${approversOf('i')}
    ), n AS (
      SELECT $3::uuid AS id, $4::text AS type, $5::text AS value, $6::boolean AS wildcard
    ), made AS (
      SELECT n.*, i.account_id, p.kid, p.network, ${IS_APPROVED} AS approved, ${APPROVAL_EVIDENCE} AS evidence
        FROM n, i LEFT JOIN approver p USING (ord)
    ), z AS (
      INSERT INTO authorizations (id, account_id, identifier_type, identifier_value, wildcard, expires_at, token, offered,
                                  status, approved, evidence)
      SELECT id, account_id, type, value, wildcard, $7, $8, $9, CASE WHEN approved THEN 'valid' ELSE 'pending' END, approved,
             CASE WHEN approved THEN evidence END
        FROM made
      RETURNING *
    )
    SELECT ${COLUMNS}, z.approved, made.kid, made.network::text FROM z, made`,
}

const DEACTIVATE: Statement = {
  name: 'authorization-deactivate',
  text: `
    UPDATE authorizations z SET status = 'deactivated', validating_by = NULL, validating_since = NULL
      FROM accounts a
     WHERE z.id = $3 AND z.account_id = $1 AND a.id = $1 AND a.key_version = $2 AND a.status = 'valid'
       AND z.status IN ('pending', 'valid') AND z.expires_at > now()
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
    const results: (Authorization | StaleAccount | undefined)[] = commands.map(() => undefined)
    for (const row of rows) results[row.ord - 1] = row.stale ? STALE_ACCOUNT : row.id === null ? undefined : decode(row)
    return results
  })

  return {
    ...createChallengeStore(db),
    find,

    async create({ accountId, keyVersion }, candidate, approval) {
      const values = [
        accountId,
        keyVersion,
        candidate.id,
        candidate.identifier.type,
        candidate.identifier.value,
        candidate.wildcard,
        candidate.expiresAt,
        candidate.token,
        candidate.offered,
      ]
      const [row] = await (approval
        ? db.query<ApprovedRow>(CREATE_APPROVED, [...values, approval.address ?? null, JSON.stringify(approval.record)])
        : db.query<ApprovedRow>(CREATE, values))
      if (!row) return STALE_ACCOUNT
      const approved = approval && row.approved ? approvedBy(approval, row, [row.identifier_value]) : undefined
      return { authorization: decode(row), ...(approved && { approved }) }
    },

    async deactivate({ accountId, keyVersion }, authorizationId) {
      const rows = await db.query<AuthorizationRow>(DEACTIVATE, [accountId, keyVersion, authorizationId])
      return rows[0] && decode(rows[0])
    },
  }
}
