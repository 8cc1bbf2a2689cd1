/**
 * SQL fragments for authorizations that are valid without a challenge (domain/allowlist.ts).
 *
 * The credential's row is locked in share mode. A revocation or change already under way comes
 * first; a later one sees what was made here.
 */

import type { Approval } from '../domain/allowlist.ts'

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

/**
 * Whether an identifier `n` is approved; `i` is its request, `p` the approver or null. Without an
 * address all are.
 */
export const IS_APPROVED = `
             (i.address IS NULL OR coalesce(credential_allows(p.id, n.type, n.value, n.wildcard), false))`

/** The evidence of an approved authorization. */
export const APPROVAL_EVIDENCE = `
               i.record || jsonb_build_object('steps', CASE WHEN i.address IS NULL THEN '[{"step": "auto_accept"}]' ELSE
                 jsonb_build_array(jsonb_build_object(
                   'step', 'credential', 'kid', p.kid, 'network', p.network::text, 'address', host(i.address))) END)`
