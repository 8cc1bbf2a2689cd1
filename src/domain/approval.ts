/**
 * Which requests make identifiers valid without a challenge. Pure.
 *
 * A credential pre-approves requests from its own networks for names of its allowlist;
 * `challenges.auto_accept` approves all.
 */

import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import { addressWithin } from './allowlist.ts'

/**
 * May approve a request. The store checks the credential's validity and allowlist when it makes the
 * row.
 */
export interface Approval {
  /** The client's address in normal form; absent where everything is accepted. */
  address?: string
  record: ApprovalRecord
}

/** Evidence kept with the authorization; the store adds the credential. */
export interface ApprovalRecord {
  type: 'pre-approval' | 'auto_accept'
  /** RFC 3339. */
  at: string
  result: 'valid'
  requestId: string
}

export interface ApprovalFacts {
  autoAccept: boolean
  /** Networks of the account's credential in CIDR notation; absent for most accounts. */
  networks: readonly string[] | undefined
  /** Text of the client's address, as trusted proxies give it. */
  address: string
  /**
   * The address is a trusted proxy's. The client is then unknown, so no network approves the
   * request.
   */
  isProxy: boolean
  requestId: string
  now: Date
}

/** Undefined when nothing is approved; the request then needs challenges. */
export function approvalOf(facts: ApprovalFacts): Approval | undefined {
  const { autoAccept, networks, address, isProxy, requestId, now } = facts
  if (!autoAccept && (networks === undefined || isProxy)) return undefined
  const base = { at: renderTimestamp(now), result: 'valid', requestId } as const
  if (autoAccept) return { record: { type: 'auto_accept', ...base } }
  const value = addressWithin(address, networks ?? [])
  return value === undefined ? undefined : { address: value, record: { type: 'pre-approval', ...base } }
}
