/** The issuance of a thread, with its log lines and metrics. */

import type { Logger } from 'pino'
import type { CaBackend } from '../../ca/backend.ts'
import type { Config } from '../../config/schema.ts'
import type { NewEvent } from '../../domain/event.ts'
import type { EventWriter } from '../../events/event-writer.ts'
import type { Metrics } from '../../ops/metrics.ts'
import { Issuance, type IssuanceEvents } from '../../services/issuance.ts'
import { databaseSerialNumbers, randomSerialNumbers, type SerialNumberSource } from '../../services/serial-number.ts'
import { issuancePolicy } from '../../settings/issuance-settings.ts'
import type { Database } from '../../store/database.ts'
import { nextSerialRange } from '../../store/issuance-store.ts'
import type { ChallengeMethods } from '../../validation/extensions.ts'
import type { Stores } from '../stores.ts'

/** The parts that the services of a thread are built from. */
export interface ThreadParts {
  config: Config
  methods: ChallengeMethods
  db: Database
  stores: Stores
  ca: CaBackend
  instanceId: number
  metrics: Metrics
  log: Logger
  eventWriter: Pick<EventWriter, 'write'>
}

export function createThreadIssuance(
  { config, methods, db, stores, ca, instanceId, metrics, log, eventWriter }: ThreadParts,
  store = stores.issuance,
): Issuance {
  return new Issuance({
    ca,
    store,
    certificates: stores.certificates,
    serialNumber: serialNumbers(config, db),
    instanceId,
    policy: issuancePolicy(config, methods.enabled),
    events: issuanceEvents({ log, metrics, eventWriter }),
  })
}

/** By `ca.serial_source`. */
export function serialNumbers({ ca }: Config, db: Database): SerialNumberSource {
  return ca.serial_source === 'database' ? databaseSerialNumbers(() => nextSerialRange(db)) : randomSerialNumbers()
}

/** An interrupted issuance has ended with a certificate. */
export function orderRecovered(orderId: string, accountId: string | undefined, certificateId: string): NewEvent {
  const data = { order_id: orderId, account_id: accountId, certificate_id: certificateId }
  return { kind: 'order.recovered', subject: orderId, accountId, data }
}

export function issuanceEvents({
  log,
  metrics,
  eventWriter,
}: Pick<ThreadParts, 'log' | 'metrics' | 'eventWriter'>): IssuanceEvents {
  return {
    issued(certificate) {
      metrics.certificatesIssued.inc()
      log.info({ event: 'certificate_issued', ...certificate }, 'certificate issued')
    },
    signingFailed(error, facts) {
      if (error.nameRefusal !== undefined && facts.orderId !== undefined) {
        const advice = 'the signer excludes a name that security.identifier_policy allows; exclude it there as well'
        log.warn({ event: 'name_refused', reason: error.nameRefusal, ...facts }, advice)
        return
      }
      metrics.caSigningErrors.inc()
      // For a certificate without an order, the caller reports the failure itself.
      log[facts.orderId === undefined ? 'debug' : 'error'](
        { event: 'signing_failed', retryable: error.retryable, err: error, ...facts },
        'the CA backend did not sign',
      )
    },
    interrupted(error, facts) {
      const reason = error instanceof Error ? error.message : String(error)
      log.warn({ event: 'issuance_interrupted', reason, ...facts }, 'issuance interrupted; it is finished by itself')
    },
    alarm(message, cause, facts) {
      metrics.alarms.inc()
      const shown = cause instanceof Error ? { message: cause.message, stack: cause.stack } : cause
      log.fatal({ event: 'alarm', ...facts, cause: shown }, message)
      const { orderId, accountId, certificateId, serialNumber, backend } = facts
      eventWriter.write({
        kind: 'alarm',
        subject: orderId ?? 'alarm',
        accountId: undefined,
        data: {
          message,
          order_id: orderId,
          account_id: accountId,
          certificate_id: certificateId,
          serial_number: serialNumber,
          backend,
        },
      })
    },
  }
}
