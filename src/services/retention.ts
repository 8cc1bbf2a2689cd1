/**
 * Retention (lock 712004) deletes old rows page by page: invalid orders, and ended authorizations with their challenges
 * once no open order can depend on them. Certificates, their orders and accounts are never deleted.
 *
 * A first round takes a quarter of an hour for each ten million rows, and any instance continues where it stopped. It
 * pauses after each page for three times the page's duration: at most a quarter of one connection. Its lock is its own,
 * so that the rest of the clean-up does not wait for it.
 */

import type { RetentionPage, RetentionStore, RetentionWalk } from '../store/retention-store.ts'

export interface RetentionPolicy {
  /** Counted from the end of a row's own lifetime. */
  invalidOrderAgeMs: number
  authorizationAgeMs: number
  invalidChallengeAgeMs: number
  orderLifetimeMs: number
  /** The longest there is. */
  authorizationLifetimeMs: number
  /** Between two rounds that came to their end. */
  pauseSeconds: number
}

export interface RetentionOptions {
  store: RetentionStore
  policy: RetentionPolicy
  onDeleted(table: RetainedTable, page: RetentionPage, seconds: number): void
  /** Asked between pages. */
  isStopping(): boolean
  rest(ms: number): Promise<void>
}

export type RetainedTable = 'orders' | 'authorizations'

/** Clocks of instances differ; an order that was made by a slow one counts as open for this much longer. */
const CLOCK_MARGIN_MS = 3_600_000
const RESTS_FOR_A_PAGE = 3
/** SIGTERM waits for a rest. */
const MAX_REST_MS = 250

/** One round over what is due. @returns how many rows were deleted */
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

/** An invalid authorization is an invalid challenge, too: the lower of the two ages counts for it. */
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

  /** An order may count on an authorization that was valid when the order was made. */
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
  for (let full = true; full && !isStopping(); ) {
    const startedAt = performance.now()
    const page = await walk.page(store, new Date())
    const ms = performance.now() - startedAt
    total += page.deleted
    full = page.full
    onDeleted(walk.table, page, ms / 1000)
    if (full) await rest(Math.min(MAX_REST_MS, RESTS_FOR_A_PAGE * ms))
  }
  return total
}
