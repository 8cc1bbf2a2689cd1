/** Order life cycle (RFC 8555 §7.1.6). Pure: no clock, no database. */

import { keysOf } from '../shared/lib/keys.ts'
import type { AuthorizationStatus } from './authorization-state.ts'

export type OrderStatus = 'pending' | 'ready' | 'processing' | 'valid' | 'invalid'

type OrderEvent = 'authorized' | 'rejected' | 'expired' | 'finalize' | 'issued' | 'failed'

/** `recovered` is no event: recovery issues a processing order from its intent, or fails it. */
export const ORDER = {
  pending: { authorized: 'ready', rejected: 'invalid', expired: 'invalid' },
  ready: { finalize: 'processing', rejected: 'invalid', expired: 'invalid' },
  processing: { issued: 'valid', failed: 'invalid' },
  valid: {},
  invalid: {},
} as const satisfies Record<OrderStatus, Partial<Record<OrderEvent, OrderStatus>>>

export const ORDER_STATUSES = keysOf<OrderStatus>(ORDER)

export type StoredOrderStatus = 'open' | Exclude<OrderStatus, 'pending' | 'ready'>

/**
 * Statuses in the database: `open` until finalize. Pending, ready and rejected derive from the
 * authorizations, which saves one write an authorization.
 */
export const STORED_ORDER = {
  open: { finalize: ORDER.ready.finalize, expired: ORDER.ready.expired },
  processing: ORDER.processing,
  valid: ORDER.valid,
  invalid: ORDER.invalid,
} as const satisfies Record<StoredOrderStatus, Partial<Record<OrderEvent, StoredOrderStatus>>>

export const STORED_ORDER_STATUSES = keysOf<StoredOrderStatus>(STORED_ORDER)

export interface OrderFacts {
  stored: StoredOrderStatus
  expiresAt: Date
  /** Their statuses, with expiry applied. */
  authorizations: readonly AuthorizationStatus[]
}

export function orderStatus(order: OrderFacts, now: Date): OrderStatus {
  if (order.stored !== 'open') return order.stored
  const pending = ORDER.pending
  if (order.expiresAt <= now) return pending.expired
  // `every` of an empty list would make the order ready.
  if (order.authorizations.length === 0) return pending.rejected
  if (order.authorizations.every((status) => status === 'valid')) return pending.authorized
  return order.authorizations.every((status) => status === 'valid' || status === 'pending')
    ? 'pending'
    : pending.rejected
}
