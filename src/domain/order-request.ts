/** When two new-order requests ask for the same (decisions, equal orders). Pure. */

import { hash } from 'node:crypto'
import type { Identifier } from '../shared/protocol/identifier.ts'

export interface OrderRequestFacts {
  accountId: string
  identifiers: readonly Identifier[]
  profile: string
  notBefore: Date | undefined
  notAfter: Date | undefined
  /** certID of the predecessor. */
  replaces: string | undefined
  /** What may approve of its identifiers without a challenge: such an order is not one that would need them. */
  approval?: string | undefined
}

/**
 * A key that equal requests share, in the form of a UUID: the identifiers count as a set, everything else as it is.
 *
 * 128 bits of SHA-256 over a text that begins with the account. A collision concerns only requests of one account,
 * which then gets another of its own orders.
 */
export function orderRequestKey(request: OrderRequestFacts): string {
  const names = request.identifiers.map(({ type, value }) => `${type}:${value}`).sort()
  const validity = [request.notBefore?.getTime() ?? '', request.notAfter?.getTime() ?? '']
  // No member can hold a line feed: identifiers are normalised, and profile names stand in the configuration.
  const text = [
    request.accountId,
    request.profile,
    ...validity,
    request.replaces ?? '',
    ...names,
    ...(request.approval ? [request.approval] : []),
  ].join('\n')
  const digest = hash('sha256', text, 'hex')
  return `${digest.slice(0, 8)}-${digest.slice(8, 12)}-${digest.slice(12, 16)}-${digest.slice(16, 20)}-${digest.slice(20, 32)}`
}
