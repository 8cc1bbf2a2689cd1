/**
 * Expiry marks overdue orders and authorizations. Retention deletes old rows page by page: invalid orders, and ended authorizations on which no
 * open order can depend. Certificates and their orders leave by archive.ts alone, accounts never.
 *
 * A first round takes 15 minutes for ten million rows; any instance continues an interrupted one.
 * Pauses of three times a page's duration limit it to a quarter of a connection. It has a lock of
 * its own (712004), so that other clean-up does not wait for it.
 */

import type { ExpiryPage, ExpiryStore, ExpiryTask } from '../../store/expiry-store.ts'
import type { RetentionPage, RetentionStore, RetentionWalk } from '../../store/retention-store.ts'

export interface ExpiryLifetimes {
  orderLifetimeMs: number
  authorizationLifetimeMs: number
  preAuthorizationLifetimeMs: number
}

interface ExpiryOptions {
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
  const now = await store.now()
  await finish('order', () => store.expireOrders(orders, now))
  for (const task of authorizationTasks(lifetimes))
    await finish('authorization', () => store.expireAuthorizations(task, now))
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

export interface RetentionPolicy {
  /** From the end of a row's own lifetime. */
  invalidOrderAgeMs: number
  authorizationAgeMs: number
  invalidChallengeAgeMs: number
  orderLifetimeMs: number
  /** The longest of all kinds of authorizations. */
  authorizationLifetimeMs: number
  /** Between two complete rounds. */
  pauseSeconds: number
}

interface RetentionOptions {
  store: RetentionStore
  policy: RetentionPolicy
  onDeleted(table: RetainedTable, page: RetentionPage, seconds: number): void
  /** Asked between pages. */
  isStopping(): boolean
  rest(ms: number): Promise<void>
}

export type RetainedTable = 'orders' | 'authorizations'

/** Clocks of instances differ, so an order counts as open for this much longer. */
const CLOCK_MARGIN_MS = 3_600_000
const RESTS_FOR_A_PAGE = 3
/** SIGTERM waits until a pause ends. */
const MAX_REST_MS = 250

/** One round. @returns how many rows were deleted */
export async function deleteOld(options: RetentionOptions): Promise<number> {
  const { store, policy, isStopping } = options
  let total = 0
  for (const walk of walksOf(policy)) {
    if (isStopping() || !(await store.isDue(walk.name, policy.pauseSeconds))) continue
    const deleted = await walkThrough(walk, options)
    total += deleted
    if (!isStopping()) await store.finish(walk.name)
  }
  return total
}

type Walk = RetentionWalk & { table: RetainedTable; page(store: RetentionStore, now: Date): Promise<RetentionPage> }

/** For an invalid authorization the lower of authorization age and invalid challenge age counts. */
function walksOf(policy: RetentionPolicy): Walk[] {
  const { orderLifetimeMs, authorizationLifetimeMs, authorizationAgeMs, invalidChallengeAgeMs } = policy
  const orders: RetentionWalk = {
    name: 'retention of orders',
    ageMs: policy.invalidOrderAgeMs,
    lifetimeMs: orderLifetimeMs,
  }
  const invalid: RetentionWalk = {
    name: 'retention of invalid authorizations',
    ageMs: invalidChallengeAgeMs,
    lifetimeMs: authorizationLifetimeMs,
  }
  const all: RetentionWalk = { ...invalid, name: 'retention of authorizations', ageMs: authorizationAgeMs }

  /** An open order may depend on an authorization that was valid when the order was created. */
  async function endedBefore(store: RetentionStore, { ageMs }: RetentionWalk, now: Date): Promise<Date> {
    const closed = await store.ordersClosedUntil(orderLifetimeMs, now)
    return new Date(Math.min(now.getTime() - ageMs, closed.getTime() - CLOCK_MARGIN_MS))
  }
  return [
    { ...orders, table: 'orders', page: (store, now) => store.deleteOrders(orders, now) },
    ...(invalidChallengeAgeMs < authorizationAgeMs
      ? [
          {
            ...invalid,
            table: 'authorizations' as const,
            page: async (store: RetentionStore, now: Date) =>
              store.deleteInvalidAuthorizations(invalid, await endedBefore(store, invalid, now), now),
          },
        ]
      : []),
    {
      ...all,
      table: 'authorizations',
      page: async (store, now) => store.deleteAuthorizations(all, await endedBefore(store, all, now), now),
    },
  ]
}

async function walkThrough(walk: Walk, { store, onDeleted, isStopping, rest }: RetentionOptions): Promise<number> {
  let total = 0
  const now = await store.now()
  for (let full = true; full && !isStopping(); ) {
    const startedAt = performance.now()
    const page = await walk.page(store, now)
    const ms = performance.now() - startedAt
    total += page.deleted
    full = page.full
    onDeleted(walk.table, page, ms / 1000)
    if (full) await rest(Math.min(MAX_REST_MS, RESTS_FOR_A_PAGE * ms))
  }
  return total
}
