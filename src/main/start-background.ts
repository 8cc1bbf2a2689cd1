/** The background tasks of the supervisor, and the actors that answer front threads. */

import type { Logger } from 'pino'
import { signerBackend } from '../config/backends.ts'
import { AbuseSummary } from '../events/abuse-summary.ts'
import type { EventWriter } from '../events/event-writer.ts'
import { beginAtZero, type Metrics } from '../ops/metrics.ts'
import { expirationSettings } from '../settings/event-settings.ts'
import { issuancePolicy } from '../settings/issuance-settings.ts'
import { readWorkers, recordRuns } from '../store/background-run-store.ts'
import type { ChallengeMethods } from '../validation/extensions.ts'
import type { AdminThread } from './admin/start-admin.ts'
import { ADOPTION, type BackgroundParts, backgroundTasks, EXPIRATION } from './background.ts'
import {
  type BackgroundEvents,
  type BackgroundWorkers,
  createFailureLog,
  RunRecorder,
  startBackgroundTasks,
} from './background-tasks.ts'
import type { CaPart, IssuancePart } from './ca/start-ca.ts'
import type { Crls } from './ca/start-crl.ts'
import { backendTasks } from './ca/start-csr-issuances.ts'
import { issuanceEvents, orderRecovered } from './ca/start-issuance.ts'
import type { ReconciliationPart } from './ca/start-reconciliation.ts'
import { type Events, smtpStatus } from './events/start-events.ts'
import { raiseAlarm } from './service-events.ts'
import type { StartContext } from './start-context.ts'
import type { DatabasePart } from './start-database.ts'
import type { ValidationPart } from './start-validation.ts'
import { type Supervisor, type SupervisorParts, spawnSupervisor } from './supervisor.ts'
import { startResolverCheck } from './watches.ts'

/** The parts started before these. */
export interface EarlierParts {
  methods: ChallengeMethods
  database: DatabasePart
  ca: CaPart
  issuance: IssuancePart
  validation: ValidationPart
}

export function startBackground(
  { config, metrics, log, now, parts }: StartContext,
  {
    methods,
    database: { db, presence, eventWriter },
    ca: { ca },
    issuance: { stores, issuance, backends, csrIssuances },
    validation,
  }: EarlierParts,
  { crl, reconciliation, incarnation }: Pick<LaterParts, 'crl' | 'reconciliation' | 'incarnation'>,
  admin: AdminThread | undefined,
): BackgroundWorkers {
  const tasks = backgroundTasks({
    config,
    db,
    live: () => now.config,
    extensions: methods.extensions,
    instanceId: presence.instanceId,
    stores,
    issuance,
    ca,
    log,
    metrics,
    dispatcher: validation.dispatcher,
    ...workEvents(log, metrics, eventWriter),
    presentSince: presence.presentSince,
    crls: crl,
    reconciliation: reconciliation?.reconciliation,
    admin,
    incarnation,
    isStopping: () => now.stopping,
  })
  const recorder = new RunRecorder({
    write: (runs) => recordRuns(db, presence.instanceId, runs),
    onError: (error) => log.debug({ err: error }, 'runs of background tasks could not be recorded'),
  })
  parts.add('records of runs', recorder, (one) => one.stop())
  const ending = new AbortController()
  const elsewhere = backendTasks(csrIssuances, backends, db, { log, metrics, eventWriter, stopping: ending.signal })
  const all = [...tasks, ...elsewhere]
  const workers = startBackgroundTasks(all, presence.lead, backgroundEvents(log, metrics, recorder))
  return {
    ...workers,
    stop() {
      ending.abort(new Error('the service is stopping'))
      return workers.stop()
    },
  }
}

interface LaterParts {
  noteDecisions: SupervisorParts['noteDecisions']
  incarnation(): string | undefined
  crl: Crls | undefined
  /** Undefined when no certificate is signed here. */
  reconciliation: ReconciliationPart | undefined
  background: BackgroundWorkers
  admin: AdminThread | undefined
  events: Events
}

export function startSupervisor(
  { config, metrics, log, parts, fronts, now }: StartContext,
  {
    database: { db, presence, eventWriter },
    ca: { ca, flags },
    issuance: { stores, backends, csrIssuances },
    validation,
  }: EarlierParts,
  { noteDecisions, crl, reconciliation, background, admin, events }: Omit<LaterParts, 'incarnation'>,
): Supervisor {
  const refusals = parts.add('abuse summary', new AbuseSummary(eventWriter, presence.instanceId), (one) => one.stop())
  const asked = config.dns.resolvers.length > 0 ? startResolverCheck(config.dns.resolvers) : undefined
  const resolvers = parts.add('resolver check', asked, (one) => one?.stop())
  const supervisor = spawnSupervisor({
    log,
    metrics,
    db,
    ca,
    flags,
    backends,
    csrIssuances,
    signer: signerBackend(config.ca),
    signTimeoutMs: config.ca.signer.timeout_seconds * 1000,
    issueWithinMs: issuancePolicy(config, []).finalizeWaitMs,
    ...validation,
    noteDecisions,
    admin,
    events,
    refusals,
    fronts: () => fronts,
    workers: () => ({
      challenge: background.isHealthy('challenge'),
      cleanup: (['cleanup', 'retention', 'archive', 'audit'] as const).every((role) => background.isHealthy(role)),
      expiration: expirationSettings(now.config).enabled && background.isHealthy('expiration'),
    }),
    background: () => readWorkers(db),
    crl: () => crl?.health(),
    signerRecords: () => reconciliation?.status(),
    isBehind: () => reconciliation?.reconciliation.isBehind === true,
    givenUp: async () => (reconciliation ? (await stores.marks.givenUp()).length : 0),
    dnsResolver: () => resolvers?.status(),
    auditLog: () => admin?.auditLog(),
    smtp: smtpStatus(config, events),
    isStopping: () => now.draining || now.stopping,
  })
  parts.add('supervisor', supervisor, (one) => one.stop())
  parts.add('validations', validation.dispatcher, (one) => one.drain(config.server.graceful_timeout * 1000))
  // Stopped before the instance releases its challenges: an adoption round would claim them again.
  parts.add('background tasks', background, (one) => one.stop())
  return supervisor
}

function backgroundEvents(log: Logger, metrics: Metrics, recorder: RunRecorder): BackgroundEvents {
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

/** Metrics and log lines of recovery, expiry, retention and the archive. */
function workEvents(
  log: Logger,
  metrics: Metrics,
  eventWriter: Pick<EventWriter, 'write'>,
): Pick<BackgroundParts, 'onRecovered' | 'onExpired' | 'onDeleted' | 'onArchived' | 'onRemoved' | 'onClockJump'> {
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
    onArchived({ file, certificates, bytes }, head) {
      metrics.certificatesArchived.inc(certificates)
      // The log shows its reader that nobody has shortened the manifest.
      log.info({ file, certificates, bytes, head }, 'expired certificates archived')
    },
    onRemoved(removed, seconds) {
      metrics.retentionDeleted.inc({ table: 'certificates' }, removed)
      metrics.retentionPageSeconds.observe({ table: 'certificates' }, seconds)
    },
    onClockJump(seconds) {
      const way = seconds > 0 ? 'ahead' : 'back'
      const reason = `it went ${Math.abs(seconds)} s ${way}; what is deleted by its age does not follow it`
      raiseAlarm({ log, metrics, eventWriter }, 'clock', { message: 'the clock of the database jumped', reason })
    },
  }
}
