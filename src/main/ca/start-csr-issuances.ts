/** Issuances from a CSR, wired: log lines, metrics, alarms, and the tasks of their background. */

import type { Logger } from 'pino'
import type { CaBackend } from '../../ca/backend.ts'
import type { NewEvent } from '../../domain/event.ts'
import { revocationReasonName } from '../../domain/revocation.ts'
import type { EventWriter } from '../../events/event-writer.ts'
import type { Metrics } from '../../ops/metrics.ts'
import { CsrIssuances, type CsrIssuancesOptions } from '../../services/csr-issuances.ts'
import { type BackendFacts, issueBySigner } from '../../services/csr-step.ts'
import type { Issuance } from '../../services/issuance.ts'
import { createReceivedCertificates, type ReceptionEvents } from '../../services/received-certificates.ts'
import { askUpstreamRenewals } from '../../services/renewal.ts'
import { revokeAtBackend } from '../../services/revocation.ts'
import type { SharedFlags } from '../../services/shared-state.ts'
import { receptionPolicy } from '../../settings/backend-settings.ts'
import { certificateProfiles } from '../../settings/order-settings.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import { type BackendRevocation, createBackendRevocationStore } from '../../store/backend-revocation-store.ts'
import { createCertificateStore } from '../../store/certificate-store.ts'
import { createCsrIssuanceStore } from '../../store/csr-issuance-store.ts'
import type { Database } from '../../store/database.ts'
import { createUpstreamRenewalStore } from '../../store/renewal-store.ts'
import type { BackgroundTask } from '../background-tasks.ts'
import type { StartContext } from '../start-context.ts'
import type { CsrBackends } from './csr-backends.ts'
import { issuanceEvents, orderRecovered } from './start-issuance.ts'

interface CsrIssuanceParts {
  backends: CsrBackends
  db: Database
  ca: CaBackend
  issuance: Issuance
  flags: Pick<SharedFlags, 'isOn'>
  instanceId: number
  eventWriter: Pick<EventWriter, 'write'>
}

const ROUND_MS = 500
const REVOCATION_ROUND_MS = 2_000
const RENEWAL_ROUND_MS = 2_000

/** @returns undefined when the signer signs everything */
export function createCsrIssuances(
  { config, log, metrics, parts }: StartContext,
  { backends, db, ca, issuance, flags, instanceId, eventWriter }: CsrIssuanceParts,
): CsrIssuances | undefined {
  if (backends.size === 0) return undefined
  const store = createCsrIssuanceStore(db)
  const certificates = createCertificateStore(db)
  const events = backendEvents(log, metrics, eventWriter)
  const profiles = certificateProfiles(config)
  const issuances = new CsrIssuances({
    backends,
    store,
    instanceId,
    events,
    candidatesOf: (profile) => profiles.get(profile)?.backends ?? [],
    received: createReceivedCertificates({ store, certificates, policy: receptionPolicy(config), instanceId, events }),
    signer: {
      isUsable: () => ca.outage() === undefined && ca.unreachable() === undefined,
      issue: (row) => issueBySigner(row, issuance, store, instanceId),
    },
    isStopped: () => flags.isOn('stopSigning'),
    timeoutSeconds: config.ca.deferred_signing_timeout,
  })
  return parts.add('issuances from a CSR', issuances, (one) => one.drain(config.server.graceful_timeout * 1000))
}

function backendEvents(
  log: Logger,
  metrics: Metrics,
  eventWriter: Pick<EventWriter, 'write'>,
): CsrIssuancesOptions['events'] & ReceptionEvents {
  const { issued, alarm } = issuanceEvents({ log, metrics, eventWriter })
  return {
    issued,
    alarm,
    stepFailed({ message, retryable, mayHaveIssued }, facts) {
      metrics.caSigningErrors.inc()
      const line = { event: 'backend_failed', reason: message, retryable, mayHaveIssued, ...facts }
      log.error(line, 'the CA backend did not issue')
    },
    refused: (reason, facts) =>
      log.warn({ event: 'backend_refused', reason, ...facts }, 'the CA backend refused a certificate'),
    failedOver(from, to, facts) {
      metrics.backendFailovers.inc({ from, to })
      log.warn({ event: 'backend_failover', to, ...facts }, 'another CA backend is asked')
    },
    notWithdrawn: (error, facts) =>
      log.warn(
        { event: 'responses_left', reason: messageOf(error), ...facts },
        'what a CA backend has published for an order was left behind; another one is asked',
      ),
    abandoned: (facts: BackendFacts) =>
      log.error(
        { event: 'issuance_abandoned', ...facts },
        'an order failed; its certificate is revoked if it still comes',
      ),
    recovered({ orderId, accountId, certificateId, backend }) {
      metrics.issuancesRecovered.inc({ outcome: 'recorded' })
      log.warn({ certificateId, accountId, orderId, backend, outcome: 'recorded' }, 'interrupted issuance recovered')
      if (orderId !== undefined) eventWriter.write(orderRecovered(orderId, accountId, certificateId))
    },
    late: (facts) =>
      log.error(
        { event: 'late_certificate', ...facts },
        'a certificate came after its order had failed or its key was blocked; it is revoked',
      ),
    lintWarnings: (findings, facts) =>
      log.warn({ event: 'received_lint', findings, ...facts }, 'the lint finds faults in a certificate of another CA'),
    interrupted: (error, facts) =>
      log.warn(
        { event: 'issuance_interrupted', reason: messageOf(error), ...facts },
        'issuance interrupted; it is finished by itself',
      ),
  }
}

interface BackendTaskParts {
  log: Logger
  metrics: Metrics
  eventWriter: Pick<EventWriter, 'write'>
  /** Aborts what waits for a CA when the service ends. */
  stopping: AbortSignal
}

/** @param issuances undefined when the signer signs everything */
export function backendTasks(
  issuances: CsrIssuances | undefined,
  backends: CsrBackends,
  db: Database,
  { log, metrics, eventWriter, stopping }: BackendTaskParts,
): BackgroundTask[] {
  if (!issuances) return []
  const store = createBackendRevocationStore(db)
  const waiting = createCsrIssuanceStore(db)
  const factsOf = ({ certificateId, backend, reason }: BackendRevocation) => ({
    certificateId,
    backend,
    crlReason: reason,
  })
  return [
    {
      name: 'backend_issuances',
      role: 'backends',
      intervalMs: ROUND_MS,
      async round() {
        const taken = await issuances.round()
        setCounts(metrics.backendIssuances, backends, await waiting.count())
        return taken
      },
    },
    ...[...backends.keys()].map(
      (backend): BackgroundTask => ({
        name: 'backend_revocations',
        role: 'backends',
        intervalMs: REVOCATION_ROUND_MS,
        async round() {
          const asked = await revokeAtBackend(backend, {
            backends,
            store,
            signal: stopping,
            events: {
              confirmed: (revocation) =>
                log.info({ event: 'backend_revoked', ...factsOf(revocation) }, 'the CA has confirmed a revocation'),
              failed(error, revocation) {
                log.error(
                  { event: 'backend_revocation_failed', reason: (error as Error).message, ...factsOf(revocation) },
                  'the CA has not confirmed a revocation; it is asked again',
                )
                // Only the first failure of a revocation is an event.
                if (revocation.failures === 0) eventWriter.write(revocationFailed(revocation, error))
              },
            },
          })
          setCounts(metrics.backendRevocations, backends, await store.count())
          return asked
        },
      }),
    ),
    ...renewalTasks(backends, db, log, stopping),
  ]
}

/** The writer adds serial number, names and account. */
function revocationFailed({ certificateId, backend, reason }: BackendRevocation, error: unknown): NewEvent {
  const data = {
    certificate_id: certificateId,
    backend,
    reason: revocationReasonName(reason),
    error: { detail: (error as Error).message },
  }
  return { kind: 'certificate.revocation_failed', subject: certificateId, accountId: undefined, data }
}

/** One task for each backend, so that a CA which hangs delays no other. */
function renewalTasks(backends: CsrBackends, db: Database, log: Logger, signal: AbortSignal): BackgroundTask[] {
  const store = createUpstreamRenewalStore(db)
  return [...backends.keys()].map((name) => ({
    name: 'upstream_renewals',
    role: 'backends',
    intervalMs: RENEWAL_ROUND_MS,
    round: () =>
      askUpstreamRenewals(name, {
        backends,
        store,
        signal,
        onFailed: ({ message }, { certificateId, backend }) =>
          log.warn(
            { event: 'upstream_renewal_failed', certificateId, backend, reason: message },
            'the CA did not say when a certificate should be renewed; it is asked again',
          ),
      }),
  }))
}

function setCounts(
  gauge: Metrics['backendIssuances'],
  backends: CsrBackends,
  counted: readonly { backend: string; rows: number }[],
): void {
  for (const backend of backends.keys()) gauge.set({ backend }, 0)
  for (const { backend, rows } of counted) gauge.set({ backend }, rows)
}
