/** Marks overdue orders and authorizations as expired, page by page. */

import type { ExpiryPage, ExpiryStore, ExpiryTask } from '../store/expiry-store.ts'

export interface ExpiryLifetimes {
  orderLifetimeMs: number
  authorizationLifetimeMs: number
  preAuthorizationLifetimeMs: number
}

export interface ExpiryOptions {
  store: ExpiryStore
  lifetimes: ExpiryLifetimes
  onExpired(kind: ExpiringKind, page: ExpiryPage): void
  /** Asked between pages. */
  isStopping(): boolean
}

export type ExpiringKind = 'order' | 'authorization'

/** One round. @returns how many rows were marked. */
export async function expireOverdue({ store, lifetimes, onExpired, isStopping }: ExpiryOptions): Promise<number> {
  let total = 0
  async function finish(kind: ExpiringKind, nextPage: () => Promise<ExpiryPage>): Promise<void> {
    for (let full = true; full && !isStopping(); ) {
      const page = await nextPage()
      full = page.full
      total += page.expired
      if (page.expired > 0) onExpired(kind, page)
    }
  }

  const orders: ExpiryTask = { name: 'orders', lifetimeMs: lifetimes.orderLifetimeMs, waits: true }
  await finish('order', () => store.expireOrders(orders, new Date()))
  for (const task of authorizationTasks(lifetimes))
    await finish('authorization', () => store.expireAuthorizations(task, new Date()))
  return total
}

/** Both kinds of authorizations share a table, but may have different lifetimes. */
function authorizationTasks(lifetimes: ExpiryLifetimes): ExpiryTask[] {
  const { authorizationLifetimeMs, preAuthorizationLifetimeMs } = lifetimes
  const short = Math.min(authorizationLifetimeMs, preAuthorizationLifetimeMs)
  const long = Math.max(authorizationLifetimeMs, preAuthorizationLifetimeMs)
  const last: ExpiryTask = { name: 'authorizations', lifetimeMs: long, waits: true }
  return short === long ? [last] : [{ name: 'short-lived authorizations', lifetimeMs: short, waits: false }, last]
}
