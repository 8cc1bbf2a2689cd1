/** When two new-order requests are equal (docs/decisions/equal-orders.md). Pure. */

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
  /**
   * Type of the approval without a challenge; such an order differs from one that needs challenges.
   */
  approval?: string | undefined
}

/**
 * A key in the form of a UUID that equal requests share; the order of identifiers does not matter.
 * It hashes the account first (128 bits of SHA-256), so a collision could only return another order
 * of the same account.
 */
export function orderRequestKey(request: OrderRequestFacts): string {
  const names = request.identifiers.map(({ type, value }) => `${type}:${value}`).sort()
  const validity = [request.notBefore?.getTime() ?? '', request.notAfter?.getTime() ?? '']
  // Line feeds separate safely: identifiers are normalised, and profile names come from the
  // configuration.
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
