/** Events, log lines and metrics of a front thread, about answers, services and overload. */

import type { Logger } from 'pino'
import type { RefusalTally } from '../events/abuse-summary.ts'
import type { EventWriter } from '../events/event-writer.ts'
import type { Metrics } from '../ops/metrics.ts'
import type { OverloadEvents } from '../overload/overload-control.ts'
import type { AccountActivity } from '../services/account-cache.ts'
import type { OrderingEvents } from '../services/ordering.ts'
import type { QuotaEvents, RateLimitEvents } from '../services/rate-limiter.ts'
import type { RegistrationEvents } from '../services/registration.ts'
import { LruMap } from '../shared/lib/caching.ts'
import type { Problem, ProblemType } from '../shared/protocol/problem.ts'
import type { Exchange } from './exchange.ts'

/** A client that gets a new nonce comes again (RFC 8555 §6.5). */
const UNREPORTED: ProblemType = 'badNonce'

/** Addresses for which the log has named a key of the configuration. The oldest is forgotten first. */
const REMEMBERED_ADDRESSES = 1_000

/** A client over its limit repeats its request; one event a minute is enough. */
const LIMITED_APART_MS = 60_000

/** Refusals come in thousands. */
const PRESSURE_LINES_APART_MS = 60_000

export interface AnswerEventsOptions {
  log: Logger
  writer: Pick<EventWriter, 'write'>
  /** Counts refusals that a stranger can cause. */
  refusals: Pick<RefusalTally, 'add'>
  activity: Pick<AccountActivity, 'seen'>
}

type AnsweredExchange = Pick<
  Exchange,
  'resource' | 'accountId' | 'orderId' | 'match' | 'refusal' | 'address' | 'http' | 'now'
>

/** A client comes with one of these for a new certificate. */
const CLIENT_IS_NOTED_AT: readonly string[] = ['newOrder', 'newAccount']

/** Events that only the answer shows: downloads, refusals, and who was there. */
export class AnswerEvents {
  readonly #options: AnswerEventsOptions
  readonly #reportedKeys = new LruMap<string, true>(REMEMBERED_ADDRESSES)
  /** When it was last reported that an account is over the limit of a name. */
  readonly #limited = new LruMap<string, number>(REMEMBERED_ADDRESSES)
  /** By the guard of the connections, since the last line about them. */
  #refused = 0
  #isLineDue = true

  constructor(options: AnswerEventsOptions) {
    this.#options = options
  }

  answered(exchange: AnsweredExchange, status: number): void {
    const { resource, accountId, refusal, http, now } = exchange
    // A request that is replayed says nothing about the client.
    if (accountId !== undefined && CLIENT_IS_NOTED_AT.includes(resource) && refusal?.type !== UNREPORTED)
      this.#options.activity.seen(accountId, http.header('user-agent'), now)
    if (status < 400) {
      if (resource === 'certificate' && accountId !== undefined) this.#delivered(accountId, exchange.match?.id ?? '')
    } else if (refusal && status < 500) this.#reportRefusal(exchange, refusal)
  }

  /** A line at the first, then one a minute for all that came since. */
  refusedByGuard(): void {
    this.#refused++
    if (this.#isLineDue) this.#reportRefused()
  }

  #reportRefused(): void {
    this.#isLineDue = this.#refused === 0
    if (this.#isLineDue) return
    this.#options.log.warn(
      { event: 'pool_pressure', refused: this.#refused },
      'statements do not come back from the database: requests that need one were refused',
    )
    this.#refused = 0
    setTimeout(() => this.#reportRefused(), PRESSURE_LINES_APART_MS).unref()
  }

  #delivered(accountId: string, certificateId: string): void {
    const data = { certificate_id: certificateId, account_id: accountId }
    this.#options.writer.write({ kind: 'certificate.delivery', subject: certificateId, accountId, data })
  }

  /** A thread reports each address once: its client will not change by itself. */
  #reportKey(key: string, address: string, reason: string): void {
    const about = `${key} ${address}`
    if (this.#reportedKeys.get(about)) return
    this.#reportedKeys.set(about, true)
    this.#options.log.warn({ event: 'account_key_not_allowed', address, key, reason }, `a client is refused by ${key}`)
  }

  #isReported(type: ProblemType, about: string, now: Date): boolean {
    if (type !== 'rateLimited') return type !== UNREPORTED
    if (now.getTime() - (this.#limited.get(about) ?? 0) < LIMITED_APART_MS) return false
    this.#limited.set(about, now.getTime())
    return true
  }

  #reportRefusal({ resource, accountId, orderId, address, now }: AnsweredExchange, refusal: Problem): void {
    const { type, status, options } = refusal
    if (options.key !== undefined) this.#reportKey(options.key, address, refusal.message)
    if (type === 'rateLimited' || status === 404 || accountId === undefined) {
      if (type !== UNREPORTED) this.#options.refusals.add(status === 404 ? 'notFound' : type)
    }
    // Without names it is a limit of the address, which is none of the account, or a quota, which has an event.
    if (accountId === undefined || (type === 'rateLimited' && options.attempted === undefined)) return
    const facts = { account_id: accountId, error: refusal.toJSON() }
    const { refused = [], attempted = [] } = options
    if (resource === 'newOrder' && this.#isReported(type, `${accountId} ${attempted.map(({ value }) => value)}`, now))
      this.#options.writer.write({
        kind: 'order.rejected',
        subject: accountId,
        accountId,
        data: { ...facts, rejected_identifiers: refused, attempted_identifiers: attempted },
      })
    else if (resource === 'finalize' && type === 'badCSR' && orderId !== undefined)
      this.#options.writer.write({
        kind: 'order.csr_refused',
        subject: orderId,
        accountId,
        data: { ...facts, order_id: orderId },
      })
  }
}

interface Reporting {
  log: Logger
  metrics: Metrics
  eventWriter: Pick<EventWriter, 'write'>
}

/** Anybody may be refused, so a thread reports one a minute. */
const REFUSALS_APART_MS = 60_000
/** `acme.contacts` and the RFC allow less; a stranger may send more. */
const MOST_CONTACTS = 10
const MOST_OF_CONTACT = 255

export function registrationEvents({ log, metrics, eventWriter }: Reporting): RegistrationEvents {
  let refusedAt = Number.NEGATIVE_INFINITY
  let unseen = 0
  return {
    contactsRefused(contacts, { message: detail, type }) {
      unseen++
      if (performance.now() - refusedAt < REFUSALS_APART_MS) return
      const shown = contacts.slice(0, MOST_CONTACTS).map((contact) => contact.slice(0, MOST_OF_CONTACT))
      const data = { contacts: shown, error: { type: `urn:ietf:params:acme:error:${type}`, detail }, refused: unseen }
      eventWriter.write({ kind: 'account.registration_failed', subject: 'registration', accountId: undefined, data })
      refusedAt = performance.now()
      unseen = 0
    },
    registered(account, eabKid) {
      metrics.accountsCreated.inc()
      const { id: accountId, thumbprint } = account
      log.info({ event: 'account_created', accountId, thumbprint, ...(eabKid && { eabKid }) }, 'account created')
    },
    deactivated(account) {
      metrics.accountsDeactivated.inc()
      log.info({ event: 'account_deactivated', accountId: account.id }, 'account deactivated')
    },
    keyChanged({ id: accountId, thumbprint }) {
      log.info({ event: 'key_changed', accountId, thumbprint }, 'account key changed')
    },
  }
}

export function orderingEvents({ log, metrics }: Reporting): OrderingEvents {
  return {
    ordered: () => metrics.ordersCreated.inc(),
    approved({ by, ...facts }, { requester: { accountId }, address, requestId }, orderId) {
      const line = { event: 'identifiers_approved', by, accountId, orderId, ...facts, address, requestId }
      log.info(line, 'identifiers are valid without a challenge')
    },
  }
}

export function quotaEvents({ log, metrics, eventWriter }: Reporting): QuotaEvents {
  return {
    exceeded(kind, { accountId, identifiers }, limit) {
      metrics.rateLimited.inc({ category: `quota_${kind}` })
      log.info({ event: 'order_quota_exceeded', kind, accountId }, 'quota exceeded')
      const data = { account_id: accountId, quota: kind, limit, attempted_identifiers: identifiers }
      eventWriter.write({ kind: 'order.quota_exceeded', subject: accountId, accountId, data })
    },
    refundFailed: (kind, accountId, error) =>
      log.warn(
        { kind, accountId, reason: (error as Error).message },
        'what was counted for a quota could not be taken back',
      ),
  }
}

export function rateLimitEvents({ log, metrics }: Reporting): RateLimitEvents {
  return {
    limited(category, subject) {
      metrics.rateLimited.inc({ category })
      log.info({ event: 'rate_limit_exceeded', category, subject }, 'rate limit exceeded')
    },
  }
}

/** A log line when it begins and when it ends. */
export function overloadEvents(log: Logger, metrics: Metrics): OverloadEvents {
  let knownConnections = 0
  return {
    admission: {
      begun(facts) {
        metrics.overloadedThreads.set(1)
        log.warn({ event: 'overload_began', ...facts }, 'overload: requests are turned away')
      },
      ended(facts) {
        metrics.overloadedThreads.set(0)
        log.warn({ event: 'overload_ended', ...facts }, 'overload is over')
      },
      turnedAway: (reason, count) => metrics.requestsShed.inc({ reason }, count),
    },
    budget: {
      exhausted: (address) =>
        log.warn({ event: 'address_held_back', address }, 'too many requests from an address fail; it is held back'),
      refused: () => metrics.requestsShed.inc({ reason: 'failing_address' }),
    },
    connectionsRefused(total) {
      if (total > knownConnections) metrics.requestsShed.inc({ reason: 'connections' }, total - knownConnections)
      knownConnections = total
    },
  }
}
