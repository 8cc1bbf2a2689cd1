/** Finalize (RFC 8555 §7.4): checks the CSR of a ready order and runs the steps of issuance.ts. */

import { grantsOf } from '../domain/allowlist.ts'
import type { CertificateProfile } from '../domain/certificate-profile.ts'
import { type CsrPolicy, checkCsr, commonNameOf, requireLeafRequest } from '../domain/csr-check.ts'
import { isSigner } from '../domain/csr-issuance.ts'
import { checkIdentifiers, type IdentifierPolicy } from '../domain/identifier-policy.ts'
import type { Order } from '../domain/records.ts'
import { sharedRuns } from '../shared/lib/caching.ts'
import { within } from '../shared/lib/time-limit.ts'
import { hashSpki, type Spki } from '../shared/pki/algorithms.ts'
import { type Csr, CsrError, parseCsr } from '../shared/pki/csr.ts'
import type { NameConstraints } from '../shared/pki/name-constraints.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import type { IssuanceStore, RulesSeen } from '../store/issuance-store.ts'
import type { KnownAccount } from './account-cache.ts'
import type { AccountRules } from './account-rules.ts'
import type { RequireFreshCaa } from './caa-freshness.ts'
import type { CsrFinalization } from './csr-finalization.ts'
import type { FlowCache } from './flow-cache.ts'
import type { BegunIssuance, BuiltCertificate, CertificateSubject, Completion, Issuance } from './issuance.ts'
import type { Ordering } from './ordering.ts'
import { countedIdentifiers, type Quotas, type RateLimiter } from './rate-limiter.ts'

export interface FinalizePolicy {
  csr: Omit<CsrPolicy, 'keyTypes'>
  identifiers: IdentifierPolicy
  /** How long a finalize reply waits for the certificate before it says `processing`. */
  finalizeWaitMs: number
}

export interface FinalizationOptions {
  issuance: Issuance
  orders: Pick<Ordering, 'findOrder'>
  store: Pick<IssuanceStore, 'findKey'>
  certificates: Pick<CertificateStore, 'isKeyBlocked'>
  rules: AccountRules
  quotas: Quotas
  limits: Pick<RateLimiter, 'charge' | 'giveBack'>
  /** Absent where CAA is not enforced. */
  requireFreshCaa?: RequireFreshCaa | undefined
  /** Absent where the signer signs everything. */
  fromCsr?: CsrFinalization | undefined
  /** Serves reads after a finalize from memory. */
  flowCache?: FlowCache | undefined
  policy: FinalizePolicy
}

export interface FinalizeRequest {
  orderId: string
  /** DER */
  csr: Buffer
  /** By which its client names the account, where that is a path of a former server. */
  accountPath?: string | undefined
  now: Date
  /** Whether the client has disconnected. */
  isGone(): boolean
}

/** `caaCheckedAt` belongs to open orders only. */
export function issuedOrder({ caaCheckedAt: _, ...order }: Order, certificateId: string): Order {
  return { ...order, status: 'valid', certificateId }
}

/** A request that may be issued. */
interface Checked {
  subject: CertificateSubject
  profile: CertificateProfile
  seen: RulesSeen
  /** The backend that issues from the CSR; undefined when the signer signs. */
  elsewhere: { backend: string; by: CsrFinalization } | undefined
}

/** One for an order of the flow cache whose profile has changed, one for a lost race, one for a change of the rules. */
const RETRIES = 3
const CHANGED_RETRY_SECONDS = 1

/** This thread continues after the reply. */
const LATER: Completion = { outcome: 'pending' }

export class Finalization {
  readonly #options: FinalizationOptions
  readonly #runs = sharedRuns<Order>()

  constructor(options: FinalizationOptions) {
    this.#options = options
  }

  /**
   * Concurrent equal requests share one run.
   * @returns the order: valid, or processing when the certificate takes longer than
   *   `finalizeWaitMs`
   * @throws Problem malformed 404, unauthorized, orderNotReady (also when another key has won the
   *   order), invalidProfile, badCSR, malformed (certificateValidity), rejectedIdentifier, caa, dns, compound,
   *   rateLimited, serverInternal 503 when no issuer is reachable or the order or its rules changed during
   *   the checks each time; StaleAccountError
   */
  finalize(known: KnownAccount, request: FinalizeRequest): Promise<Order> {
    const { accountId, keyVersion } = known.requester
    const key = `${request.orderId} ${accountId} ${keyVersion} ${request.csr.toString('latin1')}`
    return this.#runs(key, (isGone) => this.#run(known, { ...request, isGone }), request.isGone)
  }

  async #run(known: KnownAccount, request: FinalizeRequest): Promise<Order> {
    let order = await this.#attempt(known, request, await this.#read(known, request))
    // It, its rules or the history changed during the checks; try again with fresh data.
    for (let retry = 0; order.status === 'ready' && retry < RETRIES; retry++)
      order = await this.#attempt(known, request, order)
    if (order.status !== 'ready') return order
    throw new Problem('serverInternal', 'the order or its rules were changed meanwhile; try again', {
      status: 503,
      retryAfterSeconds: CHANGED_RETRY_SECONDS,
    })
  }

  #read({ requester }: KnownAccount, { orderId }: FinalizeRequest): Promise<Order> {
    return this.#options.orders.findOrder(requester, orderId)
  }

  /** @returns the order; ready when it changed during the checks */
  async #attempt(known: KnownAccount, request: FinalizeRequest, order: Order): Promise<Order> {
    const { issuance, flowCache } = this.#options
    const { requester } = known
    const checked = await this.#check(known, request, order)
    if (checked.elsewhere) return this.#issueFromCsr(known, request, order, checked, checked.elsewhere)
    const { subject, profile, seen } = checked
    const built = await issuance.build(subject, profile, order, request.now)
    const stamp = flowCache?.stampAccount(requester)
    const issuing = await this.#charged(known, order, () =>
      issuance.begin(built, { id: order.id, requester, ...seen }, request.now, request.isGone),
    )
    if (!issuing) return this.#afterLostBegin(known, request, subject)

    const { outcome, der } = await this.#completion(issuing, built, profile, request.csr)
    if (outcome === 'pending' || outcome === 'left to recovery') return { ...order, status: 'processing' }
    // It ended without a certificate of this call: refused, or by another instance or backend. The order says which.
    if (!der) return this.#read(known, request)
    const valid = issuedOrder(order, issuing.certificateId)
    const issuerFingerprint = await issuance.saveIssuer(built.issuer)
    if (stamp) flowCache?.issued(stamp, valid, { id: issuing.certificateId, der, issuerFingerprint })
    return valid
  }

  #completion(
    issuing: BegunIssuance,
    { findings }: BuiltCertificate,
    profile: CertificateProfile,
    csr: Buffer,
  ): Promise<Completion> {
    const { issuance, policy, fromCsr } = this.#options
    const completing = issuance.signAndRecord(issuing, findings)
    // Failover: where the signer surely did not sign, the next backend issues.
    const completion = fromCsr ? completing.then((end) => fromCsr.takeOver(end, issuing, profile, csr)) : completing
    return within(completion, policy.finalizeWaitMs, LATER)
  }

  /** Steps 3 to 5 by a backend that issues from the CSR. */
  async #issueFromCsr(
    known: KnownAccount,
    request: FinalizeRequest,
    order: Order,
    { subject, profile, seen }: Checked,
    { backend, by }: NonNullable<Checked['elsewhere']>,
  ): Promise<Order> {
    const { requester } = known
    const { csr, now } = request
    const certificateId = await this.#charged(known, order, () =>
      by.begin({ order, requester, seen, profile, csr, spki: subject.spki, now }, backend),
    )
    if (certificateId === undefined) return this.#afterLostBegin(known, request, subject)
    const outcome = await within(by.issue(certificateId), this.#options.policy.finalizeWaitMs, 'pending')
    return outcome === 'pending' ? { ...order, status: 'processing' } : this.#read(known, request)
  }

  /** Step 1. */
  async #check(known: KnownAccount, request: FinalizeRequest, order: Order): Promise<Checked> {
    const { issuance, policy, fromCsr } = this.#options
    requireReady(order)
    const profile = issuance.requireProfile(order.profile)
    const backend = fromCsr?.backendFor(profile)
    const elsewhere = fromCsr && backend !== undefined ? { backend, by: fromCsr } : undefined
    if (elsewhere) elsewhere.by.requireAvailable(profile)
    else issuance.requireSigning()
    const csr = readCsr(request.csr)
    checkCsr(csr, order.identifiers, known.key.spki(), { ...policy.csr, keyTypes: profile.keyTypes })
    if (profile.backends.some((name) => !isSigner(name))) requireLeafRequest(csr, profile)
    const asked = { csr, issuers: elsewhere === undefined ? issuance.constraintsFor(profile, request.now) : [] }
    let seen = await this.#checkRules(asked, order, request.now)
    // Late, because only this check can cost DNS queries.
    const by = { ...known.requester, accountPath: request.accountPath }
    const caa = this.#options.requireFreshCaa?.(by, order, request.now)
    if (caa) {
      await caa
      // DNS may take seconds, in which an administrator withdraws what was allowed.
      seen = await this.#checkRules(asked, order, request.now)
    }
    const subject = { spki: csr.spki, identifiers: order.identifiers, commonName: commonNameOf(csr) }
    return { subject, profile, seen, elsewhere }
  }

  /**
   * Checks the rules that operators change meanwhile: allowlist of the account, constraints of the issuers, CSR
   * profile.
   */
  async #checkRules(
    { csr, issuers }: { csr: Csr; issuers: readonly (readonly NameConstraints[])[] },
    order: Order,
    now: Date,
  ): Promise<RulesSeen> {
    const { rules, policy } = this.#options
    const allowlist = await rules.allowlistOf?.(order.accountId)
    checkIdentifiers(order.identifiers, policy.identifiers, allowlist, issuers)
    const grants = allowlist && grantsOf(order.identifiers, allowlist)
    return { grants, ...(await rules.checkCsrProfile(csr, order, now)) }
  }

  /**
   * Step 3. It gives limit and quota back when `work` began nothing.
   * @returns undefined when nothing began (`IssuanceStore.begin`)
   */
  async #charged<T>(
    { requester }: KnownAccount,
    { identifiers, isExempt }: Order,
    work: () => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const { quotas, limits } = this.#options
    const begin = () => quotas.charged('certificates', { accountId: requester.accountId, identifiers }, work)
    if (isExempt) return begin()
    // Charged here and not at new-order: a stranger cannot use up the limit of another's name.
    const counted = countedIdentifiers(identifiers)
    const charging = limits.charge(counted)
    if (charging) await charging
    let begun: T | undefined
    try {
      begun = await begin()
      return begun
    } finally {
      // The reply does not wait for it.
      if (begun === undefined) void limits.giveBack(counted)
    }
  }

  /** Says why nothing began, or returns the order to try again. */
  async #afterLostBegin(known: KnownAccount, request: FinalizeRequest, { spki }: { spki: Spki }): Promise<Order> {
    const { certificates, store } = this.#options
    const spkiSha256 = hashSpki(spki)
    if (await certificates.isKeyBlocked(spkiSha256))
      throw new Problem('badCSR', 'the key of the CSR was revoked as compromised')
    const current = await this.#read(known, request)
    if (current.status === 'ready') return current
    // On "valid" a client expects a certificate for its own key (RFC 8555 §7.4).
    const winner = await store.findKey(request.orderId)
    if (!winner?.equals(spkiSha256)) requireReady(current)
    return current
  }
}

function readCsr(der: Buffer): Csr {
  try {
    return parseCsr(der)
  } catch (error) {
    if (error instanceof CsrError) throw new Problem('badCSR', error.message, { cause: error })
    throw error
  }
}

const NOT_READY_DETAIL = {
  pending: 'not all of its authorizations are valid yet',
  processing: 'it is being issued already',
  valid: 'its certificate has been issued already',
  invalid: 'it is invalid; create a new order',
} as const

function requireReady(order: Order): void {
  if (order.status !== 'ready')
    throw new Problem('orderNotReady', `the order is ${order.status}: ${NOT_READY_DETAIL[order.status]}`)
}
