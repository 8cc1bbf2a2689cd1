/**
 * What this front thread has just written or read of orders, authorizations and certificates, so that the requests that
 * follow in the same flow need not ask the database for what is known.
 *
 * Memory only ever answers reads, and leads a finalize to the statement that decides. Within an instance it is as old as a
 * statement takes: what another thread changes, it announces before and after (lib/change-counters.ts), and an account's deactivation or
 * new key makes everything of that account forgotten. What other processes change (an operator's command) is seen after `LIFE_MS`. Where
 * several instances may serve one client, there is no such memory.
 */

import { orderStatus } from '../domain/order-state.ts'
import type { Authorization, Order } from '../domain/records.ts'
import type { ChangeCounters } from '../shared/lib/change-counters.ts'
import { LruMap } from '../shared/lib/lru.ts'
import type { AccountStore, Requester } from '../store/account-store.ts'
import type { AuthorizationStore } from '../store/authorization-store.ts'
import type { IssuanceStore } from '../store/issuance-store.ts'
import type { AuthorizationCandidate, NewOrder, OrderStore } from '../store/order-store.ts'
import type { RecordedAttempt } from './validation.ts'

/** From order to download a flow takes well below a second under load; a slower client costs look-ups that are cheap then. */
const LIFE_MS = 2_000
/** Of each kind, and thread; twice as many can be remembered: some megabytes. */
const GENERATION = 4_096

const PROFILED = 8_192

/** Taken before the statement whose result is to be kept. */
interface Stamp {
  accountId: string
  keyVersion: number
  accountCount: number
  count: number
  /** `performance.now()` */
  at: number
}

/** What a download needs of a certificate that this thread has just recorded. */
export interface RecentCertificate {
  id: string
  der: Buffer
  issuerFingerprint: string
}

export interface Recent {
  /** Before the statement that makes the account's order valid. */
  stampAccount(requester: Requester): Stamp
  /** The order is valid, and its certificate recorded. */
  issued(stamp: Stamp, order: Order, certificate: RecentCertificate): void
  certificate(requester: Requester, certificateId: string): RecentCertificate | undefined
  /** An authorization as it was last seen, when nobody has announced a change since. */
  authorization(requester: Requester, authorizationId: string): Authorization | undefined
  /** The record of an attempt, as the supervisor tells it. */
  attempted(authorizationId: string, recorded: RecordedAttempt): void
  orders(store: OrderStore): OrderStore
  authorizations(store: AuthorizationStore): AuthorizationStore
  issuance(store: IssuanceStore): IssuanceStore
}

/**
 * One kind of thing by its id, in two generations: when the younger one has lasted its time, or is full, it becomes the older one, and
 * what was older is forgotten as a whole. So nothing is looked for among what is to be forgotten, and little of it waits to be collected.
 */
class Memory<V extends { id: string }> {
  #younger = new Map<string, { value: V; stamp: Stamp }>()
  #older = this.#younger
  /** Until when what is kept belongs to the younger generation. */
  #until = 0
  readonly #changes: ChangeCounters

  constructor(changes: ChangeCounters) {
    this.#changes = changes
  }

  stamp({ accountId, keyVersion }: Requester, id: string): Stamp {
    const { count } = this.#changes
    return { accountId, keyVersion, accountCount: count(accountId), count: count(id), at: performance.now() }
  }

  keep(value: V, stamp: Stamp): void {
    if (stamp.at > this.#until || this.#younger.size >= GENERATION) {
      this.#older = this.#younger
      this.#younger = new Map()
      this.#until = stamp.at + LIFE_MS
    }
    this.#younger.set(value.id, { value, stamp })
  }

  /**
   * What is kept as it is after a change that was announced before and after, unless something else was announced, too.
   * @param change undefined for a value that was looked up after it: what was announced since is something else
   */
  follow(id: string, change: (value: V) => V | undefined): void {
    const kept = this.#younger.get(id) ?? this.#older.get(id)
    const count = this.#changes.count(id)
    // Counters wrap around.
    if (!kept || ((count - kept.stamp.count) | 0) !== 2) return
    const changed = change(kept.value)
    if (changed) this.keep(changed, { ...kept.stamp, count, at: performance.now() })
  }

  /** Undefined when it is not known, may have changed, or is not this account's to see. */
  find({ accountId, keyVersion }: Requester, id: string): V | undefined {
    const kept = this.#younger.get(id) ?? this.#older.get(id)
    if (!kept) return undefined
    const { value, stamp } = kept
    const isCurrent =
      stamp.accountId === accountId &&
      stamp.keyVersion === keyVersion &&
      stamp.accountCount === this.#changes.count(accountId) &&
      stamp.count === this.#changes.count(id) &&
      performance.now() - stamp.at < LIFE_MS
    return isCurrent ? value : undefined
  }
}

/** @param keepsOpenOrders false where every account must have a CSR profile, which is not known of an order that was just made */
export function createRecent(changes: ChangeCounters, keepsOpenOrders: boolean): Recent {
  const orders = new Memory<Order>(changes)
  const authorizations = new Memory<Authorization>(changes)
  const certificates = new Memory<RecentCertificate>(changes)
  /** Accounts with a CSR profile. It comes with the look-up alone, so their open orders are always looked up. */
  const profiled = new LruMap<string, true>(PROFILED)

  /** The order, when it is ready by what is known of its authorizations. */
  function openOrder(requester: Requester, order: Order): Order | undefined {
    if (!keepsOpenOrders || profiled.get(requester.accountId)) return undefined
    const now = new Date()
    const known = order.authorizationIds.map((id) => authorizations.find(requester, id))
    if (!known.every((one) => one !== undefined && one.expiresAt > now)) return undefined
    const statuses = known.map((one) => (one as Authorization).status)
    const status = orderStatus({ stored: 'open', expiresAt: order.expiresAt, authorizations: statuses }, now)
    // Only what leads on: nobody is refused a finalize because of what is remembered.
    if (status !== 'ready') return undefined
    const caaCheckedAt = oldestCaaCheck(known as Authorization[])
    return { ...order, status, ...(caaCheckedAt && { caaCheckedAt }) }
  }

  function recallOrder(requester: Requester, orderId: string): Order | undefined {
    const order = orders.find(requester, orderId)
    if (!order || order.status === 'valid') return order
    return openOrder(requester, order)
  }

  function recallAuthorization(requester: Requester, authorizationId: string): Authorization | undefined {
    const known = authorizations.find(requester, authorizationId)
    return known && known.expiresAt.getTime() > Date.now() ? known : undefined
  }

  function keepNew(command: NewOrder, order: Order, stamp: Stamp, candidates: readonly Stamp[]): void {
    orders.keep(order, stamp)
    for (const [i, candidate] of command.authorizations.entries())
      if (order.authorizationIds.includes(candidate.id))
        authorizations.keep(pendingAuthorization(candidate, stamp.accountId), candidates[i] as Stamp)
  }

  return {
    stampAccount: (requester) => orders.stamp(requester, requester.accountId),

    issued(stamp, order, certificate) {
      // Neither changes any more but by revocation and by retention.
      orders.keep(order, { ...stamp, count: changes.count(order.id) })
      certificates.keep(certificate, { ...stamp, count: changes.count(certificate.id) })
    },

    certificate: (requester, id) => certificates.find(requester, id),

    authorization: recallAuthorization,

    attempted(authorizationId, { type, attempt, outcome, isBounded }) {
      if (isBounded) return
      authorizations.follow(authorizationId, (known) => {
        const { status, attempts } = known
        const isOlder = status === 'pending' && (outcome !== null || (attempts[type]?.tries ?? 0) < attempt.tries)
        return isOlder ? { ...known, status: outcome ?? status, attempts: { ...attempts, [type]: attempt } } : undefined
      })
    },

    orders: (store) => ({
      ...store,
      async create(command) {
        const stamp = orders.stamp(command.requester, command.id)
        const candidates = command.authorizations.map(({ id }) => authorizations.stamp(command.requester, id))
        const made = await store.create(command)
        // An order that was there already is as its last look-up found it, and what was approved is not pending.
        if (typeof made === 'object' && made.id === command.id && !made.approved)
          keepNew(command, made, stamp, candidates)
        return made
      },
      async find(command) {
        const { requester, orderId } = command
        const known = recallOrder(requester, orderId)
        if (known) return known
        const stamp = orders.stamp(requester, orderId)
        const found = await store.find(command)
        if (typeof found !== 'object' || found.accountId !== requester.accountId) return found
        if (found.csrProfileId !== undefined) profiled.set(found.accountId, true)
        if (found.status === 'pending' || found.status === 'ready' || found.status === 'valid')
          orders.keep(found, stamp)
        return found
      },
    }),

    authorizations: (store) => ({
      ...store,
      async find(command) {
        const { requester, authorizationId } = command
        const known = recallAuthorization(requester, authorizationId)
        if (known) return known
        const stamp = authorizations.stamp(requester, authorizationId)
        const found = await store.find(command)
        if (typeof found === 'object' && found.accountId === requester.accountId) authorizations.keep(found, stamp)
        return found
      },
      async trigger(command) {
        const { requester, authorizationId } = command
        changes.announce(authorizationId)
        const stamp = authorizations.stamp(requester, authorizationId)
        try {
          const triggered = await store.trigger(command)
          // Our own announcement below is the one change since the stamp that this result knows of.
          if (typeof triggered === 'object')
            authorizations.keep(triggered.authorization, { ...stamp, count: stamp.count + 1 })
          return triggered
        } finally {
          changes.announce(authorizationId)
        }
      },
      deactivate: (requester, id) => changes.whileChanging(id, () => store.deactivate(requester, id)),
    }),

    issuance: (store) => ({
      ...store,
      begin: (intent) =>
        intent.order ? changes.whileChanging(intent.order.id, () => store.begin(intent)) : store.begin(intent),
    }),
  }
}

function pendingAuthorization(candidate: AuthorizationCandidate, accountId: string): Authorization {
  const { id, identifier, wildcard, token, offered, expiresAt } = candidate
  return { id, accountId, identifier, wildcard, status: 'pending', expiresAt, token, offered, attempts: {} }
}

/** As the look-up of an order gives it: undefined where a DNS name was never checked. */
function oldestCaaCheck(authorizations: readonly Authorization[]): Date | undefined {
  let oldest: string | undefined
  for (const { identifier, attempts } of authorizations) {
    if (identifier.type !== 'dns') continue
    const checked = Object.values(attempts).find((attempt) => attempt?.caaChecked !== undefined)?.caaChecked
    if (checked === undefined) return undefined
    if (oldest === undefined || checked < oldest) oldest = checked
  }
  return oldest === undefined ? undefined : new Date(oldest)
}

/** The store of a thread that remembers nothing and changes what others remember. */
export function announcingAuthorizations(store: AuthorizationStore, changes: ChangeCounters): AuthorizationStore {
  const announceAll = <T extends { authorization: Authorization }>(adopted: T[]): T[] => {
    for (const { authorization } of adopted) changes.announce(authorization.id)
    return adopted
  }
  return {
    ...store,
    recordAttempt: (result) => changes.whileChanging(result.authorizationId, () => store.recordAttempt(result)),
    adopt: async (instanceId, rules) => announceAll(await store.adopt(instanceId, rules)),
    readopt: async (instanceId, ids) => announceAll(await store.readopt(instanceId, ids)),
  }
}

/** Deactivation and key change concern everything that is remembered of an account. */
export function announcingAccounts(store: AccountStore, changes: ChangeCounters): AccountStore {
  return {
    ...store,
    deactivate: (requester) => changes.whileChanging(requester.accountId, () => store.deactivate(requester)),
    changeKey: (requester, key) => changes.whileChanging(requester.accountId, () => store.changeKey(requester, key)),
  }
}
