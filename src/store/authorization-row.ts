/** The row of an authorization, shared by all statements that return one. */

import type { Approval } from '../domain/allowlist.ts'
import type { Authorization, ChallengeAttempt } from '../domain/records.ts'
import type { AuthorizationStatus } from '../domain/states.ts'
import type { ChallengeType } from '../shared/protocol/challenge.ts'
import type { IdentifierType } from '../shared/protocol/identifier.ts'
import { authorization } from './status-sql.ts'

/** Status in table `z`. An authorization past its expiry reads as expired, even before its row does. */
export const STATUS_NOW = `CASE WHEN z.status ${authorization.allows('expire')} AND z.expires_at <= now() THEN ${authorization.after('expire')} ELSE z.status END`

/** Whether an order `o` has authorizations, none is missing, and each is pending or valid. */
export const ALL_ALIVE = (o: string) => `(
         (SELECT count(*) FILTER (WHERE z.status ${authorization.allows('expire')} AND z.expires_at > now())
            FROM authorizations z WHERE z.id = ANY (${o}.authorization_ids)) = greatest(cardinality(${o}.authorization_ids), 1))`

/** `order.authorization_expiry_seconds` is 30 days at most. What lasts longer was made while a clock was ahead. */
const LONGEST_DAYS = 31

/**
 * authorizations_reusable: the account's valid authorization for `n` that lasts longest, and beyond `i.reuse_until`.
 */
export const reusableAuthorization = (columns: string, condition: string) => `
              SELECT ${columns} FROM authorizations r
               WHERE r.account_id = i.account_id AND r.identifier_value = n.value AND r.identifier_type = n.type
                 AND r.wildcard = n.wildcard AND r.status ${authorization.is('valid')} AND r.expires_at > i.reuse_until
                 AND r.expires_at < i.reuse_until + interval '${LONGEST_DAYS} days'
                 AND ${condition}
               ORDER BY r.expires_at DESC LIMIT 1`

/** Columns of table `z`. */
export const COLUMNS = `z.id, z.account_id, z.identifier_type, z.identifier_value, z.wildcard, z.expires_at, z.token, z.offered,
           z.attempts, ${STATUS_NOW} AS status`

export interface AuthorizationRow {
  id: string | null
  account_id: string
  identifier_type: IdentifierType
  identifier_value: string
  wildcard: boolean
  status: AuthorizationStatus
  expires_at: Date
  token: string
  offered: ChallengeType[]
  attempts: Partial<Record<ChallengeType, ChallengeAttempt>>
}

export function decode(row: AuthorizationRow): Authorization {
  return {
    id: row.id as string,
    accountId: row.account_id,
    identifier: { type: row.identifier_type, value: row.identifier_value },
    wildcard: row.wildcard,
    status: row.status,
    expiresAt: row.expires_at,
    token: row.token,
    offered: row.offered,
    attempts: row.attempts,
  }
}

/*
 * Authorizations that are valid without a challenge (domain/allowlist.ts). The credential's row is locked in share
 * mode: a revocation or change already under way comes first, and a later one sees what was made here.
 */

/** Describes an approval for the log. */
export interface Approved {
  by: 'pre-approval' | 'auto_accept'
  /** Key id of the credential, and its network that contains the client's address. */
  kid?: string
  network?: string
  identifiers: readonly string[]
}

export interface ApproverRow {
  kid?: string | null
  network?: string | null
}

export function approvedBy(
  approval: Approval,
  { kid, network }: ApproverRow,
  identifiers: readonly string[],
): Approved {
  return { by: approval.record.type, identifiers, ...(kid && { kid }), ...(network && { network }) }
}

/**
 * Rows (ord, id, kid, network) of the approving credentials.
 * @param requests has ord, account_id and address
 */
export const approversOf = (requests: string): string => `
      SELECT i.ord, c.id, c.kid,
             (SELECT n FROM unnest(c.preapproved_networks) n WHERE i.address <<= n ORDER BY masklen(n) DESC LIMIT 1) AS network
        FROM ${requests} i JOIN accounts a ON a.id = i.account_id JOIN eab_credentials c ON c.id = a.eab_credential_id
       WHERE NOT c.revoked AND i.address <<= ANY (c.preapproved_networks)
         FOR SHARE OF c`

/** Whether an identifier `n` is approved; `i` is its request, `p` the approver or null. Without an address all are. */
export const IS_APPROVED = `
             (i.address IS NULL OR coalesce(credential_allows(p.id, n.type, n.value, n.wildcard), false))`

/** The evidence of an approved authorization. */
export const APPROVAL_EVIDENCE = `
               i.record || jsonb_build_object('steps', CASE WHEN i.address IS NULL THEN '[{"step": "auto_accept"}]' ELSE
                 jsonb_build_array(jsonb_build_object(
                   'step', 'credential', 'kid', p.kid, 'network', p.network::text, 'address', host(i.address))) END)`
