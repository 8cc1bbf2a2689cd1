/** Log lines and metrics of a front thread's services. */

import type { Logger } from 'pino'
import type { Metrics } from '../ops/metrics.ts'
import type { EventWriter } from '../services/events/event-writer.ts'
import type { OrderingEvents } from '../services/ordering.ts'
import type { QuotaEvents } from '../services/quotas.ts'
import type { RateLimitEvents } from '../services/rate-limiter.ts'
import type { RegistrationEvents } from '../services/registration.ts'

export interface Reporting {
  log: Logger
  metrics: Metrics
  eventWriter: Pick<EventWriter, 'write'>
}

/** Anybody may be refused, so a thread tells one a minute. */
const REFUSALS_APART_MS = 60_000
/** What `acme.contacts` and the RFC allow is less; a stranger may send more. */
const MOST_CONTACTS = 10
const MOST_OF_CONTACT = 255

export function registrationEvents({ log, metrics, eventWriter }: Reporting): RegistrationEvents {
  let refusedAt = Number.NEGATIVE_INFINITY
  let untold = 0
  return {
    contactsRefused(contacts, { message: detail, type }) {
      untold++
      if (performance.now() - refusedAt < REFUSALS_APART_MS) return
      const shown = contacts.slice(0, MOST_CONTACTS).map((contact) => contact.slice(0, MOST_OF_CONTACT))
      const data = { contacts: shown, error: { type: `urn:ietf:params:acme:error:${type}`, detail }, refused: untold }
      eventWriter.write({ kind: 'account.registration_failed', subject: 'registration', accountId: undefined, data })
      refusedAt = performance.now()
      untold = 0
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
    exceeded(kind, accountId, limit) {
      metrics.rateLimited.inc({ category: `quota_${kind}` })
      log.info({ event: 'order_quota_exceeded', kind, accountId }, 'quota exceeded')
      const data = { account_id: accountId, quota: kind, limit }
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
