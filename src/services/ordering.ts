/** Orders and authorizations: creation, reading, deactivation (RFC 8555 §7.4, §7.5). */

import { type Approval, approvalOf } from '../domain/approval.ts'
import { type CertificateProfile, chooseProfile } from '../domain/certificate-profile.ts'
import { checkIdentifiers, type IdentifierPolicy, type RequestedIdentifier } from '../domain/identifier-policy.ts'
import type { Account, Authorization, Order } from '../domain/records.ts'
import { checkRequestedValidity, orderExpiry, type RequestedValidity } from '../domain/validity.ts'
import { randomOctets } from '../shared/lib/random.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { offeredChallengeTypes } from '../shared/protocol/challenge.ts'
import { authorizedIdentifier, type Identifier, isWildcard } from '../shared/protocol/identifier.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { Requester } from '../store/account-store.ts'
import type { Approved } from '../store/approval.ts'
import type { AuthorizationStore } from '../store/authorization-store.ts'
import { ALREADY_REPLACED, type AuthorizationCandidate, type OrderStore } from '../store/order-store.ts'
import type { AccountRules } from './account-rules.ts'
import type { Quotas } from './quotas.ts'
import type { Renewal } from './renewal.ts'
import { unlessStale } from './stale-account.ts'

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

/** Who asks, and from where. */
export interface Client {
  requester: Requester
  account: Pick<Account, 'allowedProfiles' | 'preapprovedNetworks'>
  /** Behind trusted proxies; the proxy's own where nothing better is known. */
  address: string
  requestId: string
}

export interface OrderRequest extends RequestedValidity {
  identifiers: readonly RequestedIdentifier[]
  profile?: string
  /** certID of the certificate it replaces (RFC 9773 §5). */
  replaces?: string
}

export interface OrderingEvents {
  /** An order was made; not when an equal one was there. */
  ordered(order: Order): void
  /** Authorizations were made that are valid without a challenge. */
  approved(approved: Approved, client: Client, orderId: string | undefined): void
}

/** Charges the limits of an order that is acceptable otherwise. @throws Problem rateLimited */
export type AdmitOrder = (identifiers: readonly Identifier[], isExempt: boolean) => Promise<void> | undefined

export interface Ordering {
  /**
   * A new order, or the account's open one that was asked for in the same way.
   * @throws Problem malformed, unsupportedIdentifier, rejectedIdentifier, compound, invalidProfile, alreadyReplaced,
   *   rateLimited, unauthorized when it replaces another account's certificate
   */
  createOrder(client: Client, request: OrderRequest, now: Date, admit: AdmitOrder): Promise<Order>
  /** @throws Problem malformed 404, unauthorized when it is another account's */
  findOrder(requester: Requester, orderId: string): Promise<Order>
  listOrders(requester: Requester, after: string | undefined, limit: number): Promise<string[]>
  preAuthorize(client: Client, identifier: RequestedIdentifier, now: Date): Promise<Authorization>
  findAuthorization(requester: Requester, authorizationId: string): Promise<Authorization>
  deactivateAuthorization(requester: Requester, authorizationId: string): Promise<Authorization>
}

/** An authorization with less than this left is not handed to a new order, which could not be finished under it. */
const REUSE_MARGIN_MS = 3_600_000

export function createOrdering(
  orders: OrderStore,
  authorizations: AuthorizationStore,
  rules: AccountRules,
  renewal: Pick<Renewal, 'requirePredecessor'>,
  policy: OrderingPolicy,
  quotas: Quotas,
  events: OrderingEvents,
): Ordering {
  function candidate(identifier: Identifier, now: Date, lifetimeMs: number): AuthorizationCandidate {
    return {
      // The last digit is left to the ids of its challenges (protocol/challenge.ts).
      id: `${uuidv7(now.getTime()).slice(0, -1)}0`,
      identifier: authorizedIdentifier(identifier),
      wildcard: isWildcard(identifier),
      // RFC 8555 §8: at least 128 bits of entropy; 256 as a client may expect 43 characters.
      token: randomOctets(32).toString('base64url'),
      offered: offeredChallengeTypes(identifier, policy.identifiers.enabledChallenges),
      expiresAt: new Date(now.getTime() + lifetimeMs),
    }
  }

  function approvalFor({ account, address, requestId }: Client, now: Date): Approval | undefined {
    const { autoAccept, isTrustedProxy } = policy
    const networks = account.preapprovedNetworks
    return approvalOf({ autoAccept, networks, address, isProxy: isTrustedProxy(address), requestId, now })
  }

  async function findAuthorization(requester: Requester, authorizationId: string): Promise<Authorization> {
    const authorization = unlessStale(await authorizations.find({ requester, authorizationId }))
    if (!authorization) throw new Problem('malformed', 'there is no such authorization', { status: 404 })
    if (authorization.accountId !== requester.accountId)
      throw new Problem('unauthorized', 'this authorization belongs to another account')
    return authorization
  }

  async function findPredecessor(requester: Requester, { replaces }: OrderRequest, identifiers: readonly Identifier[]) {
    if (replaces === undefined) return undefined
    const { id, isReplaced } = await renewal.requirePredecessor(requester.accountId, replaces, identifiers)
    return { certId: replaces, certificateId: id, isReplaced }
  }

  return {
    async createOrder(client, request, now, admit) {
      const { requester } = client
      const allowlist = await rules.allowlistOf(requester.accountId)
      const identifiers = checkIdentifiers(request.identifiers, policy.identifiers, allowlist)
      const profile = chooseProfile(policy.profiles, request.profile, client.account.allowedProfiles)
      const lifetimeEnd = new Date(now.getTime() + policy.orderLifetimeMs)
      const tooLong = request.profile === undefined ? 'malformed' : 'invalidProfile'
      checkRequestedValidity(request, profile.validity, now, lifetimeEnd, tooLong)
      const expiresAt = orderExpiry(request, lifetimeEnd)
      const replaces = await findPredecessor(requester, request, identifiers)
      // A checked predecessor is what exempts an order from the limits of new orders (decisions 19), once: who lets the
      // order fail and comes again is counted, or one certificate would be leave for any number of orders.
      const isExempt = replaces !== undefined && !replaces.isReplaced
      await admit(identifiers, isExempt)
      const id = uuidv7(now.getTime())
      const approval = approvalFor(client, now)
      let equal: Order | undefined
      const make = async () => {
        const made = await orders.create({
          id,
          requester,
          identifiers,
          profile: profile.name,
          notBefore: request.notBefore,
          notAfter: request.notAfter,
          expiresAt,
          authorizations: identifiers.map((identifier) => candidate(identifier, now, policy.authorizationLifetimeMs)),
          reuseUntil: new Date(now.getTime() + REUSE_MARGIN_MS),
          ...(replaces && { replaces }),
          ...(approval && { approval }),
        })
        if (made === ALREADY_REPLACED)
          throw new Problem('alreadyReplaced', 'another order replaces this certificate already (RFC 9773 §5)')
        const order = unlessStale(made)
        if (order.approved) events.approved(order.approved, client, order.id)
        if (order.id === id) return order
        // Nothing was made, so nothing counts towards the quota.
        equal = order
        return undefined
      }
      // Nor do replacements count as new orders for the quota: each spends a certificate, which has a quota of its own.
      const order = await (isExempt ? make() : quotas.within('orders', requester.accountId, make))
      if (order === undefined) return equal as Order
      events.ordered(order)
      return order
    },

    async findOrder(requester, orderId) {
      const order = unlessStale(await orders.find({ requester, orderId }))
      if (!order) throw new Problem('malformed', 'there is no such order', { status: 404 })
      if (order.accountId !== requester.accountId)
        throw new Problem('unauthorized', 'this order belongs to another account')
      return order
    },

    listOrders: async (requester, after, limit) => unlessStale(await orders.list(requester, after, limit)),

    async preAuthorize(client, requested, now) {
      const { requester } = client
      const allowlist = await rules.allowlistOf(requester.accountId)
      const [identifier] = checkIdentifiers([requested], policy.identifiers, allowlist) as [Identifier]
      if (isWildcard(identifier))
        throw new Problem('malformed', 'a wildcard name cannot be pre-authorized (RFC 8555 §7.4.1)')
      const wanted = candidate(identifier, now, policy.preAuthorizationLifetimeMs)
      const { authorization, approved } = unlessStale(
        await authorizations.create(requester, wanted, approvalFor(client, now)),
      )
      if (approved) events.approved(approved, client, undefined)
      return authorization
    },

    findAuthorization,

    async deactivateAuthorization(requester, authorizationId) {
      const deactivated = await authorizations.deactivate(requester, authorizationId)
      if (deactivated) return deactivated
      const { status } = await findAuthorization(requester, authorizationId)
      throw new Problem('malformed', `an authorization that is ${status} cannot be deactivated`)
    },
  }
}
