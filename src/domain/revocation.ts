/**
 * Revocation reasons (RFC 5280 §5.3.1), and those that an ACME client may give
 * (docs/decisions/revocation.md).
 */

import { CRL_REASONS } from '../shared/pki/crl-lint.ts'
import { Problem } from '../shared/protocol/problem.ts'

export const KEY_COMPROMISE = 1

export function revocationReasonName(reason: number): string {
  return CRL_REASONS[reason] ?? String(reason)
}

/**
 * unspecified, keyCompromise, affiliationChanged, superseded, cessationOfOperation,
 * privilegeWithdrawn
 */
const ACCEPTED: readonly number[] = [0, KEY_COMPROMISE, 3, 4, 5, 9]

/** What an administrator may give: beside those, cACompromise. */
export const ADMINISTRATORS_REASONS: readonly number[] = [...ACCEPTED, 2].sort()

/** @throws Problem badRevocationReason */
export function checkRevocationReason(reason: number | undefined): number {
  if (reason === undefined) return 0
  if (!ACCEPTED.includes(reason))
    throw new Problem('badRevocationReason', `reason ${reason} is not accepted; use one of ${ACCEPTED.join(', ')}`)
  return reason
}
