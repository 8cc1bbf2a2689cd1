/** Orders and authorizations: creation, reading, deactivation (RFC 8555 §7.4, §7.5). */

import { randomBytes } from 'node:crypto'
import { type Approval, approvalOf } from '../domain/allowlist.ts'
import type { CertificateProfile, RequestedValidity } from '../domain/certificate-profile.ts'
import {
  checkIdentifiers,
  type IdentifierPolicy,
  offeredChallengeTypes,
  type RequestedIdentifier,
} from '../domain/identifier-policy.ts'
import { checkRequestedValidity, chooseProfile, orderExpiry } from '../domain/order-request.ts'
import type { Account, Authorization, Order } from '../domain/records.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { authorizedIdentifier, type Identifier, isWildcard } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { Requester } from '../store/account-store.ts'
import type { Approved } from '../store/authorization-row.ts'
import type { AuthorizationStore } from '../store/authorization-store.ts'
import {
  ALREADY_REPLACED,
  type AuthorizationCandidate,
  type NewOrder,
  type OrderPage,
  type OrderStore,
} from '../store/order-store.ts'
import { unlessStale } from './account-cache.ts'
import type { AccountRules } from './account-rules.ts'
import type { NoteAcmeAct } from './decisions/acme-decisions.ts'
import type { Issuance } from './issuance.ts'
import { countedIdentifiers, type Quotas, type RateLimiter, type Visit } from './rate-limiter.ts'
import { type Renewal, replacesRefused } from './renewal.ts'

export interface OrderingPolicy {
  identifiers: IdentifierPolicy
  profiles: ReadonlyMap<string, CertificateProfile>
  orderLifetimeMs: number
  authorizationLifetimeMs: number
  preAuthorizationLifetimeMs: number
  /** `challenges.auto_accept` */
  autoAccept: boolean
  isTrustedProxy(address: string): boolean
}

/** The account of a request, and its origin. */
interface Client {
  requester: Requester
  account: Pick<Account, 'allowedProfiles' | 'preapprovedNetworks'>
  /** The client's address behind trusted proxies; the proxy's own when no other is known. */
  address: string
  requestId: string
}

/** `createOrder` charges the visit: only it knows whether the order is exempt (RFC 9773 §5). */
interface OrderClient extends Client {
  visit: Pick<Visit, 'charge'> | undefined
}

interface OrderRequest extends RequestedValidity {
  identifiers: readonly RequestedIdentifier[]
  profile?: string
  /** certID of the certificate it replaces (RFC 9773 §5). */
  replaces?: string
}

export interface OrderingEvents {
  /** An order was created; not called for an existing equal one. */
  ordered(order: Order): void
  /** Authorizations were created that are valid without a challenge. */
  approved(approved: Approved, client: Client, orderId: string | undefined): void
}

export interface OrderingOptions {
  orders: OrderStore
  authorizations: AuthorizationStore
  rules: AccountRules
  renewal: Pick<Renewal, 'requirePredecessor'>
  issuance: Pick<Issuance, 'constraintsFor'>
  quotas: Quotas
  limits: Pick<RateLimiter, 'require'>
  policy: OrderingPolicy
  note: NoteAcmeAct
  events: OrderingEvents
}

/** One that expires sooner is not reused, because the client needs time to finish the order. */
const REUSE_MARGIN_MS = 3_600_000

export class Ordering {
  readonly #options: OrderingOptions

  constructor(options: OrderingOptions) {
    this.#options = options
  }

  /**
   * A new order, or the account's equal open one.
   * @throws Problem malformed, unsupportedIdentifier, rejectedIdentifier, compound, invalidProfile,
   *   alreadyReplaced, rateLimited
   */
  async createOrder(client: OrderClient, request: OrderRequest, now: Date): Promise<Order> {
    const { quotas, events } = this.#options
    const { accountId } = client.requester
    const checked = await this.#admit(client, request, now)
    const isExempt = checked.replaces?.isExempt === true
    // Only created orders count. Replacements do not, as their certificates have a quota.
    const make = () => this.#makeOrder(client, checked, now)
    const made = await (isExempt
      ? make()
      : quotas.charged('orders', { accountId, identifiers: checked.identifiers }, make, isNew))
    if (made.isNew) events.ordered(made.order)
    return made.order
  }

  /** @throws Problem malformed 404, unauthorized when it is another account's */
  async findOrder(requester: Requester, orderId: string): Promise<Order> {
    const order = unlessStale(await this.#options.orders.find({ requester, orderId }))
    if (!order) throw new Problem('malformed', 'there is no such order', { status: 404 })
    if (order.accountId !== requester.accountId)
      throw new Problem('unauthorized', 'this order belongs to another account')
    return order
  }

  async listOrders(requester: Requester, after: string | undefined, limit: number): Promise<OrderPage> {
    return unlessStale(await this.#options.orders.list(requester, after, limit))
  }

  /** A new authorization, or the account's valid one. */
  async preAuthorize(
    client: Client,
    requested: RequestedIdentifier,
    now: Date,
  ): Promise<{ authorization: Authorization; isNew: boolean }> {
    const { authorizations, rules, policy, issuance, quotas, events } = this.#options
    const { requester } = client
    const allowlist = await rules.allowlistOf?.(requester.accountId)
    const issuers = issuance.constraintsFor(undefined, now)
    const [identifier] = checkIdentifiers([requested], policy.identifiers, allowlist, issuers) as [Identifier]
    if (isWildcard(identifier))
      throw new Problem('malformed', 'a wildcard name cannot be pre-authorized (RFC 8555 §7.4.1)')
    const candidate = this.#candidate(identifier, now, policy.preAuthorizationLifetimeMs)
    const reuseUntil = new Date(now.getTime() + REUSE_MARGIN_MS)
    const approval = this.#approvalFor(client, now)
    // Adds a row, so it counts as an order. A reused valid authorization adds none.
    const make = async () => {
      const result = await authorizations.create({ requester, candidate, reuseUntil, approval })
      const { authorization, approved } = unlessStale(result)
      if (approved) events.approved(approved, client, undefined)
      return { authorization, isNew: authorization.id === candidate.id }
    }
    return quotas.charged('orders', { accountId: requester.accountId, identifiers: [identifier] }, make, isNew)
  }

  async findAuthorization(requester: Requester, authorizationId: string): Promise<Authorization> {
    const authorization = unlessStale(await this.#options.authorizations.find({ requester, authorizationId }))
    if (!authorization) throw new Problem('malformed', 'there is no such authorization', { status: 404 })
    if (authorization.accountId !== requester.accountId)
      throw new Problem('unauthorized', 'this authorization belongs to another account')
    return authorization
  }

  async deactivateAuthorization(requester: Requester, authorizationId: string): Promise<Authorization> {
    const deactivated = await this.#options.authorizations.deactivate(requester, authorizationId)
    if (deactivated) {
      await this.#options.note('acme.deactivate_authorization', requester.accountId, {
        authorization_id: authorizationId,
      })
      return deactivated
    }
    const { status } = await this.findAuthorization(requester, authorizationId)
    throw new Problem('malformed', `an authorization that is ${status} cannot be deactivated`)
  }

  /** @throws Problem that names what was asked for */
  async #admit(client: OrderClient, request: OrderRequest, now: Date): Promise<CheckedOrder> {
    try {
      const checked = await this.#checkOrder(client, request, now)
      await this.#charge(client, checked.identifiers, checked.replaces?.isExempt === true)
      return checked
    } catch (error) {
      throw error instanceof Problem ? error.ofOrderFor(request.identifiers) : error
    }
  }

  async #checkOrder({ requester, account }: Client, request: OrderRequest, now: Date): Promise<CheckedOrder> {
    const { rules, policy, issuance } = this.#options
    const allowlist = await rules.allowlistOf?.(requester.accountId)
    const profile = chooseProfile(policy.profiles, request.profile, account.allowedProfiles)
    const issuers = issuance.constraintsFor(profile, now)
    const identifiers = checkIdentifiers(request.identifiers, policy.identifiers, allowlist, issuers)
    const lifetimeEnd = new Date(now.getTime() + policy.orderLifetimeMs)
    const tooLong = request.profile === undefined ? 'malformed' : 'invalidProfile'
    checkRequestedValidity(request, profile.validity, now, lifetimeEnd, tooLong)
    const replaces = await this.#findPredecessor(requester, request.replaces, identifiers, now)
    return {
      identifiers,
      profile: profile.name,
      notBefore: request.notBefore,
      notAfter: request.notAfter,
      expiresAt: orderExpiry(request, lifetimeEnd),
      ...(replaces && { replaces }),
    }
  }

  async #findPredecessor(
    { accountId }: Requester,
    certId: string | undefined,
    identifiers: readonly Identifier[],
    now: Date,
  ) {
    if (certId === undefined) return undefined
    const found = await this.#options.renewal.requirePredecessor(accountId, certId, identifiers, now)
    return found && { certId, certificateId: found.id, isExempt: found.isRenewal }
  }

  /** RFC 9773 §5: a renewal is exempt. @throws Problem rateLimited */
  async #charge({ visit }: OrderClient, identifiers: readonly Identifier[], isExempt: boolean): Promise<void> {
    if (!isExempt) this.#options.limits.require(countedIdentifiers(identifiers))
    await visit?.charge([], isExempt)
  }

  async #makeOrder(client: Client, checked: CheckedOrder, now: Date): Promise<{ order: Order; isNew: boolean }> {
    const { orders, policy, events } = this.#options
    const id = uuidv7(now.getTime())
    const approval = this.#approvalFor(client, now)
    const made = await orders.create({
      id,
      requester: client.requester,
      ...checked,
      authorizations: checked.identifiers.map((identifier) =>
        this.#candidate(identifier, now, policy.authorizationLifetimeMs),
      ),
      reuseUntil: new Date(now.getTime() + REUSE_MARGIN_MS),
      ...(approval && { approval }),
    })
    if (made === ALREADY_REPLACED)
      throw replacesRefused('another order replaces the certificate already (RFC 9773 §5)', 409).ofOrderFor(
        checked.identifiers,
      )
    const order = unlessStale(made)
    if (order.approved) events.approved(order.approved, client, order.id)
    return { order, isNew: order.id === id }
  }

  #candidate(identifier: Identifier, now: Date, lifetimeMs: number): AuthorizationCandidate {
    return {
      // Challenge ids differ from it in the last digit (shared/protocol/challenge.ts).
      id: `${uuidv7(now.getTime()).slice(0, -1)}0`,
      identifier: authorizedIdentifier(identifier),
      wildcard: isWildcard(identifier),
      // RFC 8555 §8 wants 128 bits; 256 bits, because clients may expect 43 characters.
      token: randomBytes(32).toString('base64url'),
      offered: offeredChallengeTypes(identifier, this.#options.policy.identifiers.enabledChallenges),
      expiresAt: new Date(now.getTime() + lifetimeMs),
    }
  }

  #approvalFor({ account, address, requestId }: Client, now: Date): Approval | undefined {
    const { autoAccept, isTrustedProxy } = this.#options.policy
    const networks = account.preapprovedNetworks
    return approvalOf({ autoAccept, networks, address, isProxy: isTrustedProxy(address), requestId, now })
  }
}

/** A checked order, in the form of the store. */
type CheckedOrder = Pick<NewOrder, 'identifiers' | 'profile' | 'notBefore' | 'notAfter' | 'expiresAt' | 'replaces'>

/** An existing equal one is not counted. */
const isNew = (made: { isNew: boolean }): boolean => made.isNew
