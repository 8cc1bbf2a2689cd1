/**
 * Life cycles as tables: status → event → next status. Final statuses have empty rows. Pure: no clock, no database.
 *
 * Accounts, orders, authorizations and challenges are of RFC 8555 §7.1.6. Issuances from a CSR, their upstream orders
 * and the administration's jobs are our own.
 */

import { keysOf } from '../shared/lib/encoding.ts'
import { problemDocument } from '../shared/protocol/problem.ts'

export type StateTable = Readonly<Record<string, Readonly<Record<string, string>>>>

/** Statuses of a table. */
export type StatusOf<T extends StateTable> = keyof T & string
/** Events of all rows of a table. */
export type EventOf<T extends StateTable> = { [S in keyof T]: keyof T[S] }[keyof T] & string

/** Statuses in which `event` is allowed. */
export function statusesAllowing<T extends StateTable>(table: T, event: EventOf<T>): StatusOf<T>[] {
  return statusesOf(table).filter((status) => event in (table[status] ?? {}))
}

/** The status that `event` leads to. @throws when the table has none, or several */
export function statusAfter<T extends StateTable>(table: T, event: EventOf<T>): StatusOf<T> {
  const targets = new Set(statusesAllowing(table, event).map((status) => table[status]?.[event]))
  const [target] = targets
  if (target === undefined || targets.size !== 1)
    throw new Error(`${event} leads to ${targets.size} statuses, not to one`)
  return target
}

/** Statuses that no event changes. */
export function finalStatuses<T extends StateTable>(table: T): StatusOf<T>[] {
  return statusesOf(table).filter((status) => Object.keys(table[status] ?? {}).length === 0)
}

function statusesOf<T extends StateTable>(table: T): StatusOf<T>[] {
  return Object.keys(table)
}

export type AccountStatus = 'valid' | 'deactivated' | 'revoked'
export const isAccountStatus = (value: unknown): value is AccountStatus =>
  ACCOUNT_STATUSES.some((status) => status === value)

type AccountEvent = 'deactivate' | 'revoke'

/** The client may `deactivate`, the operator `revoke`. */
export const ACCOUNT = {
  valid: { deactivate: 'deactivated', revoke: 'revoked' },
  deactivated: {},
  revoked: {},
} as const satisfies Record<AccountStatus, Partial<Record<AccountEvent, AccountStatus>>>

export const ACCOUNT_STATUSES = keysOf<AccountStatus>(ACCOUNT)

export type AuthorizationStatus = 'pending' | 'valid' | 'invalid' | 'deactivated' | 'expired' | 'revoked'

type AuthorizationEvent = 'validated' | 'failed' | 'deactivate' | 'expire' | 'revoke'

export const AUTHORIZATION = {
  pending: { validated: 'valid', failed: 'invalid', deactivate: 'deactivated', expire: 'expired' },
  valid: { deactivate: 'deactivated', expire: 'expired', revoke: 'revoked' },
  invalid: {},
  deactivated: {},
  expired: {},
  revoked: {},
} as const satisfies Record<AuthorizationStatus, Partial<Record<AuthorizationEvent, AuthorizationStatus>>>

export const AUTHORIZATION_STATUSES = keysOf<AuthorizationStatus>(AUTHORIZATION)

export type ChallengeStatus = 'pending' | 'processing' | 'valid' | 'invalid'

type ChallengeEvent = 'claim' | 'release' | 'validated' | 'failed'

/**
 * `claim`: a client triggers it or an instance adopts it; `release`: its instance stops (ARCHITECTURE.md, life of a
 * challenge). A first attempt without a claim may decide a pending challenge.
 */
export const CHALLENGE = {
  pending: { claim: 'processing', validated: 'valid', failed: 'invalid' },
  processing: { release: 'pending', validated: 'valid', failed: 'invalid' },
  valid: {},
  invalid: {},
} as const satisfies Record<ChallengeStatus, Partial<Record<ChallengeEvent, ChallengeStatus>>>

export type OrderStatus = 'pending' | 'ready' | 'processing' | 'valid' | 'invalid'

type OrderEvent = 'authorized' | 'rejected' | 'expired' | 'finalize' | 'issued' | 'failed' | 'restored'

/**
 * `recovered` is no event: recovery issues a processing order from its intent, or fails it. `restored`: the signer has a
 * certificate that an older copy of the database lacks, whatever that copy knows of the authorizations.
 */
export const ORDER = {
  pending: { authorized: 'ready', rejected: 'invalid', expired: 'invalid', restored: 'valid' },
  ready: { finalize: 'processing', rejected: 'invalid', expired: 'invalid', restored: 'valid' },
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
  open: { finalize: ORDER.ready.finalize, expired: ORDER.ready.expired, restored: ORDER.ready.restored },
  processing: ORDER.processing,
  valid: ORDER.valid,
  invalid: ORDER.invalid,
} as const satisfies Record<StoredOrderStatus, Partial<Record<OrderEvent, StoredOrderStatus>>>

export const STORED_ORDER_STATUSES = keysOf<StoredOrderStatus>(STORED_ORDER)

interface OrderFacts {
  stored: StoredOrderStatus
  expiresAt: Date
  /** Their statuses, with expiry applied. */
  authorizations: readonly AuthorizationStatus[]
}

/** The error of an order that was not finalized in time (RFC 8555 §7.1.3). */
export const ORDER_EXPIRED = problemDocument(
  'unauthorized',
  'the order expired before it was finalized; make a new one',
)

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

type CsrIssuanceStatus =
  | 'fresh'
  | 'opened'
  | 'promised'
  | 'abandoned'
  | 'awaited'
  | 'signer'
  | 'issued'
  | 'late'
  | 'failed'

type CsrIssuanceEvent = 'rest' | 'open' | 'promise' | 'move' | 'give' | 'take' | 'abandon' | 'record' | 'fail'

/** An issuance from a CSR (csr-issuance.ts decides which event comes next). */
export const CSR_ISSUANCE = {
  /** No backend has answered. The first one of the profile that is there is asked, the signer among them. */
  fresh: {
    rest: 'fresh',
    open: 'opened',
    promise: 'promised',
    move: 'fresh',
    give: 'signer',
    // Only where the answer of a step is lost.
    abandon: 'abandoned',
    record: 'issued',
    fail: 'failed',
  },
  /**
   * A backend has answered with a state, and no certificate exists. Its next step is taken while it is
   * there; else it withdraws what it has published, and the next one is asked.
   */
  opened: {
    rest: 'opened',
    open: 'opened',
    promise: 'promised',
    move: 'fresh',
    abandon: 'abandoned',
    record: 'issued',
    fail: 'failed',
  },
  /** A certificate may exist. Only its backend is asked, however long that is away. */
  promised: {
    rest: 'promised',
    open: 'opened',
    promise: 'promised',
    abandon: 'awaited',
    record: 'issued',
    fail: 'failed',
  },
  /** The order has failed. Its backend is asked to clean up, and to say whether a certificate exists. */
  abandoned: { rest: 'abandoned', open: 'abandoned', promise: 'awaited', record: 'late', fail: 'failed' },
  /** The order has failed, and a certificate may exist. It is asked for ever more rarely, for a week. */
  awaited: { rest: 'awaited', open: 'abandoned', promise: 'awaited', record: 'late', fail: 'failed' },
  /** The row is an intent of the signer. It comes back when the signer has surely not signed it. */
  signer: { take: 'fresh', record: 'issued', fail: 'failed' },
  issued: {},
  /** The certificate is recorded as revoked. */
  late: {},
  failed: {},
} as const satisfies Record<CsrIssuanceStatus, Partial<Record<CsrIssuanceEvent, CsrIssuanceStatus>>>

/** Statuses of a row; in the others the row is gone. */
export type CsrRowStatus = Exclude<CsrIssuanceStatus, 'signer' | 'issued' | 'late' | 'failed'>

export type UpstreamOrderStep = 'order' | 'inspect' | 'place' | 'answer' | 'await' | 'finalize' | 'clean' | 'collect'

export type UpstreamOrderEvent =
  | 'ordered'
  | 'unproven'
  | 'proven'
  | 'placed'
  | 'answered'
  | 'ready'
  | 'finalized'
  | 'cleaned'
  | 'failed'

/**
 * An order that this service has at an upstream CA (backend `acme_proxy`). Each step is taken from a state that is
 * committed, so a crash repeats at most one of them.
 */
export const UPSTREAM_ORDER = {
  /** Makes the upstream order. Done twice, it leaves an order that is never finalized. */
  order: { ordered: 'inspect' },
  /** Reads which names are still to be proven. */
  inspect: { unproven: 'place', proven: 'await', failed: 'clean' },
  /** Publishes one response to a challenge after the other. */
  place: { placed: 'answer', failed: 'clean' },
  /** Tells the upstream to look. Done twice, it asks only for challenges that still wait. */
  answer: { answered: 'await', failed: 'clean' },
  /** Reads whether the upstream is satisfied. */
  await: { ready: 'finalize', finalized: 'clean', failed: 'clean' },
  /** Sends the CSR; from here on a certificate may exist. Done twice, it sends only while the order is ready. */
  finalize: { finalized: 'clean', failed: 'clean' },
  /** Withdraws one response after the other. An order that has failed ends here: refused, or begun again. */
  clean: { cleaned: 'collect' },
  /** Downloads the certificate, and ends with it. */
  collect: { ready: 'finalize', failed: 'clean' },
} as const satisfies Record<UpstreamOrderStep, Partial<Record<UpstreamOrderEvent, UpstreamOrderStep>>>

export type BulkRevocationStatus = 'matching' | 'revoking' | 'done' | 'refused' | 'cancelled'

type BulkRevocationEvent = 'listed' | 'overrun' | 'finish' | 'cancel'

/** `overrun`: more certificates match than were confirmed. A page that is revoked ends before its job is cancelled. */
export const BULK_REVOCATION = {
  matching: { listed: 'revoking', overrun: 'refused', cancel: 'cancelled' },
  revoking: { finish: 'done', cancel: 'cancelled' },
  done: {},
  refused: {},
  cancelled: {},
} as const satisfies Record<BulkRevocationStatus, Partial<Record<BulkRevocationEvent, BulkRevocationStatus>>>

export const BULK_REVOCATION_STATUSES = keysOf<BulkRevocationStatus>(BULK_REVOCATION)

type AuditVerificationStatus = 'running' | 'done' | 'failed'

type AuditVerificationEvent = 'finish' | 'fail'

/** `fail`: the log could not be read to its end, or the instance that read it has ended. */
export const AUDIT_VERIFICATION = {
  running: { finish: 'done', fail: 'failed' },
  done: {},
  failed: {},
} as const satisfies Record<AuditVerificationStatus, Partial<Record<AuditVerificationEvent, AuditVerificationStatus>>>

export const AUDIT_VERIFICATION_STATUSES = keysOf<AuditVerificationStatus>(AUDIT_VERIFICATION)
