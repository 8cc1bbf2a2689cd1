/**
 * Cache of orders, authorizations and certificates that this front thread has just written or read.
 * It saves look-ups for later requests of the same flow.
 *
 * Only reads use it; statements decide on stored rows. Other threads announce changes before and after each. Changes by
 * other processes are seen after `LIFE_MS`, so an instance uses no cache when others may serve the same client.
 */

import type { Authorization, Order } from '../domain/records.ts'
import { orderStatus } from '../domain/states.ts'
import { LruMap } from '../shared/lib/caching.ts'
import type { ChangeCounters } from '../shared/lib/shared-memory.ts'
import { latestCaaCheck } from '../shared/protocol/caa.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import type { AccountStore, Requester } from '../store/account-store.ts'
import type { AuthorizationStore } from '../store/authorization-store.ts'
import type { CsrIssuanceStore } from '../store/csr-issuance-store.ts'
import type { IssuanceStore } from '../store/issuance-store.ts'
import type { AuthorizationCandidate, NewOrder, OrderStore } from '../store/order-store.ts'
import type { RecordedAttempt } from './challenge-triggers.ts'

/** A flow takes well below a second from order to download; slower clients cost look-ups. */
const LIFE_MS = 2_000
/** Entries of a generation, by kind and thread; two generations take some megabytes. */
const GENERATION = 4_096

const PROFILED = 8_192

/** State of the change counters before the statement whose result is cached. */
interface Stamp {
  accountId: string
  keyVersion: number
  accountCount: number
  count: number
  /** `performance.now()` */
  at: number
}

/** A certificate that this thread has just recorded, as a download needs it. */
interface CachedCertificate {
  id: string
  der: Buffer
  issuerFingerprint: string
}

/** Values of one kind by id, in two generations. A full or expired younger generation replaces the older one. */
class Generations<V extends { id: string }> {
  #younger = new Map<string, { value: V; stamp: Stamp }>()
  #older = this.#younger
  /** When the younger generation expires. */
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
   * Applies a change announced before and after it, a count of 2. Any other count skips it.
   * @param change returns undefined for a value that was looked up after the change
   */
  follow(id: string, change: (value: V) => V | undefined): void {
    const kept = this.#younger.get(id) ?? this.#older.get(id)
    const count = this.#changes.count(id)
    // Counters wrap around.
    if (!kept || ((count - kept.stamp.count) | 0) !== 2) return
    const changed = change(kept.value)
    if (changed) this.keep(changed, { ...kept.stamp, count, at: performance.now() })
  }

  /** Undefined for an unknown value, one that may have changed, or one of another account. */
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

export class FlowCache {
  readonly #changes: ChangeCounters
  readonly #keepsOpenOrders: boolean
  readonly #orders: Generations<Order>
  readonly #authorizations: Generations<Authorization>
  readonly #certificates: Generations<CachedCertificate>
  /** Accounts with a CSR profile. Their open orders are looked up: only the row has the profile. */
  readonly #profiled = new LruMap<string, true>(PROFILED)

  /** @param keepsOpenOrders false if accounts must have a CSR profile, which a new order lacks */
  constructor(changes: ChangeCounters, keepsOpenOrders: boolean) {
    this.#changes = changes
    this.#keepsOpenOrders = keepsOpenOrders
    this.#orders = new Generations(changes)
    this.#authorizations = new Generations(changes)
    this.#certificates = new Generations(changes)
  }

  /** Call before the statement that makes the account's order valid. */
  stampAccount(requester: Requester): Stamp {
    return this.#orders.stamp(requester, requester.accountId)
  }

  /** Caches a valid order and its certificate, which only revocation and retention change. */
  issued(stamp: Stamp, order: Order, certificate: CachedCertificate): void {
    this.#orders.keep(order, { ...stamp, count: this.#changes.count(order.id) })
    this.#certificates.keep(certificate, { ...stamp, count: this.#changes.count(certificate.id) })
  }

  certificate(requester: Requester, certificateId: string): CachedCertificate | undefined {
    return this.#certificates.find(requester, certificateId)
  }

  /** The cached authorization, if no change was announced since. */
  authorization(requester: Requester, authorizationId: string): Authorization | undefined {
    const known = this.#authorizations.find(requester, authorizationId)
    return known && known.expiresAt.getTime() > Date.now() ? known : undefined
  }

  /** The supervisor has recorded an attempt. */
  attempted(authorizationId: string, { type, attempt, outcome, isBounded }: RecordedAttempt): void {
    if (isBounded) return
    this.#authorizations.follow(authorizationId, (known) => {
      const { status, attempts } = known
      const isOlder = status === 'pending' && (outcome !== null || (attempts[type]?.tries ?? 0) < attempt.tries)
      return isOlder ? { ...known, status: outcome ?? status, attempts: { ...attempts, [type]: attempt } } : undefined
    })
  }

  /** The store, with this cache before its look-ups. */
  orders(store: OrderStore): OrderStore {
    return {
      ...store,
      create: (command) => this.#createOrder(store, command),
      find: (command) => this.#findOrder(store, command),
    }
  }

  /** The store, with this cache before its look-ups; its changes are announced. */
  authorizations(store: AuthorizationStore): AuthorizationStore {
    return {
      ...store,
      find: (command) => this.#findAuthorization(store, command),
      trigger: (command) => this.#trigger(store, command),
      deactivate: (requester, id) => this.#changes.whileChanging(id, () => store.deactivate(requester, id)),
    }
  }

  /** The store, whose changes are announced. */
  issuance(store: IssuanceStore): IssuanceStore {
    return {
      ...store,
      begin: (intent) =>
        intent.order ? this.#changes.whileChanging(intent.order.id, () => store.begin(intent)) : store.begin(intent),
    }
  }

  /** Announces the changes of a store whose issuances begin from a CSR. */
  csrIssuance(store: CsrIssuanceStore): CsrIssuanceStore {
    return {
      ...store,
      begin: (intent) => this.#changes.whileChanging(intent.order.id, () => store.begin(intent)),
    }
  }

  async #createOrder(store: OrderStore, command: NewOrder): Promise<Awaited<ReturnType<OrderStore['create']>>> {
    const { requester } = command
    const stamp = this.#orders.stamp(requester, command.id)
    const candidates = command.authorizations.map(({ id }) => this.#authorizations.stamp(requester, id))
    const made = await store.create(command)
    // Skips an existing order, and one with approved authorizations, which are not pending.
    if (typeof made === 'object' && made.id === command.id && !made.approved)
      this.#keepNew(command, made, stamp, candidates)
    return made
  }

  #keepNew(command: NewOrder, order: Order, stamp: Stamp, candidates: readonly Stamp[]): void {
    this.#orders.keep(order, stamp)
    for (const [i, candidate] of command.authorizations.entries())
      if (order.authorizationIds.includes(candidate.id))
        this.#authorizations.keep(pendingAuthorization(candidate, stamp.accountId), candidates[i] as Stamp)
  }

  async #findOrder(
    store: OrderStore,
    command: Parameters<OrderStore['find']>[0],
  ): Promise<Awaited<ReturnType<OrderStore['find']>>> {
    const { requester, orderId } = command
    const known = this.#order(requester, orderId)
    if (known) return known
    const stamp = this.#orders.stamp(requester, orderId)
    const found = await store.find(command)
    if (typeof found !== 'object' || found.accountId !== requester.accountId) return found
    if (found.csrProfileId !== undefined) this.#profiled.set(found.accountId, true)
    if (found.status === 'pending' || found.status === 'ready' || found.status === 'valid')
      this.#orders.keep(found, stamp)
    return found
  }

  #order(requester: Requester, orderId: string): Order | undefined {
    const order = this.#orders.find(requester, orderId)
    if (!order || order.status === 'valid') return order
    return this.#openOrder(requester, order)
  }

  /** The order, if its cached authorizations make it ready. */
  #openOrder(requester: Requester, order: Order): Order | undefined {
    if (!this.#keepsOpenOrders || this.#profiled.get(requester.accountId)) return undefined
    const now = new Date()
    const known = order.authorizationIds.map((id) => this.#authorizations.find(requester, id))
    if (!known.every((one) => one !== undefined && one.expiresAt > now)) return undefined
    const statuses = known.map((one) => (one as Authorization).status)
    const status = orderStatus({ stored: 'open', expiresAt: order.expiresAt, authorizations: statuses }, now)
    // Only `ready` is answered, so the cache never refuses a finalize.
    if (status !== 'ready') return undefined
    const caaCheckedAt = oldestCaaCheck(known as Authorization[], now)
    return { ...order, status, ...(caaCheckedAt && { caaCheckedAt }) }
  }

  async #findAuthorization(
    store: AuthorizationStore,
    command: Parameters<AuthorizationStore['find']>[0],
  ): Promise<Awaited<ReturnType<AuthorizationStore['find']>>> {
    const { requester, authorizationId } = command
    const known = this.authorization(requester, authorizationId)
    if (known) return known
    const stamp = this.#authorizations.stamp(requester, authorizationId)
    const found = await store.find(command)
    if (typeof found === 'object' && found.accountId === requester.accountId) this.#authorizations.keep(found, stamp)
    return found
  }

  async #trigger(
    store: AuthorizationStore,
    command: Parameters<AuthorizationStore['trigger']>[0],
  ): Promise<Awaited<ReturnType<AuthorizationStore['trigger']>>> {
    const { requester, authorizationId } = command
    this.#changes.announce(authorizationId)
    const stamp = this.#authorizations.stamp(requester, authorizationId)
    try {
      const triggered = await store.trigger(command)
      // The result includes the change that is announced below, hence the count + 1.
      if (typeof triggered === 'object')
        this.#authorizations.keep(triggered.authorization, { ...stamp, count: stamp.count + 1 })
      return triggered
    } finally {
      this.#changes.announce(authorizationId)
    }
  }
}

function pendingAuthorization(candidate: AuthorizationCandidate, accountId: string): Authorization {
  const { id, identifier, wildcard, token, offered, expiresAt } = candidate
  return { id, accountId, identifier, wildcard, status: 'pending', expiresAt, token, offered, attempts: {} }
}

/** Same result as the look-up of an order: undefined when a DNS name was never checked, or at a time that has not come. */
function oldestCaaCheck(authorizations: readonly Authorization[], now: Date): Date | undefined {
  const latest = renderTimestamp(latestCaaCheck(now))
  let oldest: string | undefined
  for (const { identifier, attempts } of authorizations) {
    if (identifier.type !== 'dns') continue
    const checked = Object.values(attempts).find((attempt) => attempt?.caaChecked !== undefined)?.caaChecked
    if (checked === undefined || checked > latest) return undefined
    if (oldest === undefined || checked < oldest) oldest = checked
  }
  return oldest === undefined ? undefined : new Date(oldest)
}

/** For a thread without a cache: announces its changes to the caches of other threads. */
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

/** Deactivation and key change invalidate every cached value of an account. */
export function announcingAccounts(store: AccountStore, changes: ChangeCounters): AccountStore {
  return {
    ...store,
    deactivate: (requester) => changes.whileChanging(requester.accountId, () => store.deactivate(requester)),
    changeKey: (requester, key) => changes.whileChanging(requester.accountId, () => store.changeKey(requester, key)),
  }
}
