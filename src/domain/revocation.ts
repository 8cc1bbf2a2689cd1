/** Revocation reasons (RFC 5280 §5.3.1), and those that an ACME client may give (docs/decisions/revocation.md). */

import { CRL_REASONS } from '../shared/pki/crl-lint.ts'
import { Problem } from '../shared/protocol/problem.ts'

/**
 * Hexadecimal in either case, with or without colons and leading zeros.
 * @returns lower-case hexadecimal without leading zero octets; undefined when it is none
 */
export function parseSerialNumber(text: string): string | undefined {
  const digits = text.replaceAll(':', '').toLowerCase().replace(/^0+/, '')
  const octets = digits.length % 2 === 0 ? digits : `0${digits}`
  return /^(?:[0-9a-f]{2}){1,20}$/.test(octets) ? octets : undefined
}

/** Drops the octet that keeps a DER INTEGER positive. Our own serial numbers have none; other CAs may have one. */
export function withoutSignOctet(serialNumber: Buffer): Buffer {
  return serialNumber.length > 1 && serialNumber[0] === 0 ? serialNumber.subarray(1) : serialNumber
}

export const KEY_COMPROMISE = 1

export function revocationReasonName(reason: number): string {
  return CRL_REASONS[reason] ?? String(reason)
}

/** unspecified, keyCompromise, affiliationChanged, superseded, cessationOfOperation, privilegeWithdrawn */
const ACCEPTED: readonly number[] = [0, KEY_COMPROMISE, 3, 4, 5, 9]

/** Reasons for administrators: the accepted ones and cACompromise. */
export const ADMINISTRATORS_REASONS: readonly number[] = [...ACCEPTED, 2].sort()

/** @throws Problem badRevocationReason */
export function checkRevocationReason(reason: number | undefined): number {
  if (reason === undefined) return 0
  if (!ACCEPTED.includes(reason))
    throw new Problem('badRevocationReason', `reason ${reason} is not accepted; use one of ${ACCEPTED.join(', ')}`)
  return reason
}
