/** Metrics and log lines of the background tasks, and of what they find. */

import type { Logger } from 'pino'
import type { EventWriter } from '../events/event-writer.ts'
import { beginAtZero, type Metrics } from '../ops/metrics.ts'
import { ADOPTION, type BackgroundParts, EXPIRATION } from './background.ts'
import type { BackgroundEvents, RunRecorder } from './background-tasks.ts'
import { createFailureLog } from './background-tasks.ts'
import { issuanceEvents, orderRecovered } from './ca/start-issuance.ts'

export function backgroundEvents(log: Logger, metrics: Metrics, recorder: RunRecorder): BackgroundEvents {
  const failures = createFailureLog(log)
  return {
    began(task) {
      metrics.workerRuns.inc({ task })
      beginAtZero(metrics.workerErrors, { task })
      if (task === ADOPTION) metrics.challengeWorkerPolls.inc()
    },
    ended(task, taken) {
      // An adopted challenge counts as a retry.
      if (task === ADOPTION) metrics.challengesValidated.inc({ result: 'retry' }, taken)
      if (taken > 0) log.info({ task, taken }, 'background task has found work')
    },
    failed(task, error) {
      metrics.workerErrors.inc({ task })
      if (task === ADOPTION) metrics.challengeWorkerErrors.inc()
      if (task === EXPIRATION) metrics.expirationErrors.inc()
      failures.failed(task, error)
    },
    recovered: failures.recovered,
    ran: (task, nextInMs, error) => recorder.ran(task, nextInMs, error),
  }
}

/** Metrics and log lines of recovery, expiry and retention. */
export function workEvents(
  log: Logger,
  metrics: Metrics,
  eventWriter: Pick<EventWriter, 'write'>,
): Pick<BackgroundParts, 'onRecovered' | 'onExpired' | 'onDeleted'> {
  const { alarm } = issuanceEvents({ log, metrics, eventWriter })
  return {
    onRecovered({ certificateId, accountId, orderId, serialNumber }, outcome) {
      metrics.issuancesRecovered.inc({ outcome })
      const facts = { certificateId, accountId, orderId, serialNumber }
      if (outcome === 'overdue')
        alarm('the signer has not answered in time; what it may have signed is recorded as revoked', undefined, facts)
      log.warn({ certificateId, accountId, orderId, outcome }, 'interrupted issuance recovered')
      // A certificate without an order is the service's own.
      if (orderId !== undefined && outcome === 'recorded')
        eventWriter.write(orderRecovered(orderId, accountId, certificateId))
    },
    onExpired(kind, { expired, challenges }) {
      const counter = { order: metrics.ordersExpired, authorization: metrics.authorizationsExpired }[kind]
      counter.inc(expired)
      metrics.challengesExpired.inc(challenges)
    },
    onDeleted(table, { deleted }, seconds) {
      metrics.retentionDeleted.inc({ table }, deleted)
      metrics.retentionPageSeconds.observe({ table }, seconds)
    },
  }
}
