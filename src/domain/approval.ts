/**
 * Identifiers that are valid without a challenge: pre-approved by the binding credential of an account, for requests from
 * the credential's own networks and for names of its allowlist; or all of them, under `challenges.auto_accept`. Pure.
 */

import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import { type AllowedIdentifier, isAllowed } from './allowlist.ts'

/** What a request may be approved by. Whether the credential stands, and which names it allows, is seen when the row is made. */
export interface Approval {
  /** Of the client, in normal form; absent where everything is accepted. */
  address?: string
  record: ApprovalRecord
}

/** Kept as the evidence of the authorization; the store adds the credential. */
export interface ApprovalRecord {
  type: 'pre-approval' | 'auto_accept'
  /** RFC 3339. */
  at: string
  result: 'valid'
  requestId: string
}

export interface ApprovalFacts {
  autoAccept: boolean
  /** Of the account's credential, in CIDR notation; absent for most accounts. */
  networks: readonly string[] | undefined
  /** Text of the client's address, behind trusted proxies. */
  address: string
  /** The address is a trusted proxy's: the client behind it is unknown, so no network approves it. */
  isProxy: boolean
  requestId: string
  now: Date
}

/** Undefined when nothing is approved: the request is then treated like any other. */
export function approvalOf(facts: ApprovalFacts): Approval | undefined {
  const { autoAccept, networks, address, isProxy, requestId, now } = facts
  if (!autoAccept && (networks === undefined || isProxy)) return undefined
  const base = { at: renderTimestamp(now), result: 'valid', requestId } as const
  if (autoAccept) return { record: { type: 'auto_accept', ...base } }
  // A proxy that listens on IPv6 alone names its IPv4 clients so.
  const value = address.replace(/^::ffff:(?=\d+\.)/i, '')
  const patterns = networks?.map((network): AllowedIdentifier => ({ type: 'ip', value: network })) ?? []
  return isAllowed({ type: 'ip', value }, patterns)
    ? { address: value, record: { type: 'pre-approval', ...base } }
    : undefined
}
