/** The issuance of a thread, with its log lines and metrics; and what follows from revocations. */

import type { Logger } from 'pino'
import type { CaBackend } from '../../ca/backend.ts'
import type { Config } from '../../config/schema.ts'
import type { NewEvent } from '../../domain/event.ts'
import { KEY_COMPROMISE } from '../../domain/revocation.ts'
import { compromisedKeys } from '../../services/compromised-keys.ts'
import { Issuance, type IssuanceEvents } from '../../services/issuance.ts'
import { createRevocationNotes, type ReportRevocations } from '../../services/reconcile/revocation-notes.ts'
import { databaseSerialNumbers, randomSerialNumbers, type SerialNumberSource } from '../../services/serial-number.ts'
import { issuancePolicy } from '../../settings/issuance-settings.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import type { CertificateStore } from '../../store/certificate-store.ts'
import type { Database } from '../../store/database.ts'
import { nextSerialRange } from '../../store/issuance-store.ts'
import type { ChallengeMethods } from '../../validation/extensions.ts'
import type { BackgroundTask } from '../background-tasks.ts'
import { type Reporting, raiseAlarm } from '../service-events.ts'
import type { Stores } from '../stores.ts'

/** The parts that the services of a thread are built from. */
export interface ThreadParts extends Reporting {
  config: Config
  methods: ChallengeMethods
  db: Database
  stores: Stores
  ca: CaBackend
  instanceId: number
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

/** The source that `ca.serial_source` names. */
export function serialNumbers({ ca }: Config, db: Database): SerialNumberSource {
  return ca.serial_source === 'database' ? databaseSerialNumbers(() => nextSerialRange(db)) : randomSerialNumbers()
}

/** An interrupted issuance has ended with a certificate. */
export function orderRecovered(orderId: string, accountId: string | undefined, certificateId: string): NewEvent {
  const data = { order_id: orderId, account_id: accountId, certificate_id: certificateId }
  return { kind: 'order.recovered', subject: orderId, accountId, data }
}

export function issuanceEvents({ log, metrics, eventWriter }: Reporting): IssuanceEvents {
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
      const reason = messageOf(error)
      log.warn({ event: 'issuance_interrupted', reason, ...facts }, 'issuance interrupted; it is finished by itself')
    },
    alarm(message, cause, facts) {
      const shown = cause instanceof Error ? { message: cause.message, stack: cause.stack } : cause
      const { orderId, accountId, certificateId, serialNumber, backend } = facts
      const data = {
        message,
        order_id: orderId,
        account_id: accountId,
        certificate_id: certificateId,
        serial_number: serialNumber,
        backend,
      }
      raiseAlarm({ log, metrics, eventWriter }, orderId ?? 'alarm', data, { ...facts, cause: shown })
    },
  }
}

export interface Noting {
  ca: Pick<CaBackend, 'issuers' | 'unreachable' | 'records'>
  log: Logger
}

/** The notes of revocations at the signer, with the log of a thread. */
export function revocationNotes(
  { ca, log }: Noting,
  { certificates }: { certificates: CertificateStore },
): ReportRevocations {
  return createRevocationNotes({
    ca,
    records: ca.records,
    certificates,
    onFailed: (error, count) =>
      log.warn({ err: error, count }, 'revocations could not be noted at the signer; the next CRL has them'),
  })
}

/** CA/Browser Forum BR 4.9.1.1 allows 24 hours. */
const COMPROMISED_KEYS_MS = 2_000

/** Ends whatever else has a compromised key. */
export function compromisedKeysTask({
  ca,
  log,
  metrics,
  stores,
}: Noting & Pick<ThreadParts, 'metrics' | 'stores'>): BackgroundTask {
  const round = compromisedKeys({
    store: stores.compromisedKeys,
    note: revocationNotes({ ca, log }, stores),
    onRevoked(ids) {
      metrics.certificatesRevoked.inc(ids.length)
      const facts = { event: 'certificates_revoked', count: ids.length, reason: KEY_COMPROMISE, ids: ids.slice(0, 100) }
      log.info(facts, 'certificates with a compromised key revoked')
    },
  })
  return { name: 'compromised_keys', role: 'cleanup', intervalMs: COMPROMISED_KEYS_MS, round }
}
