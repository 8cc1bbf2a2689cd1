/** Metrics: one registry per thread, merged at each scrape. */

import { createRequire } from 'node:module'
import type * as prom from 'prom-client'
import type { Counter as CounterOf, MetricObject, Registry as RegistryOf } from 'prom-client'
import { RequestMetrics } from './request-metrics.ts'

// The index loads collectors of Node's metrics, and with them OpenTelemetry: 60 modules in each thread, and no use here.
const load = createRequire(import.meta.url)
const Registry: typeof prom.Registry = load('prom-client/lib/registry')
const Counter: typeof prom.Counter = load('prom-client/lib/counter')
const Gauge: typeof prom.Gauge = load('prom-client/lib/gauge')
const Histogram: typeof prom.Histogram = load('prom-client/lib/histogram')
const { aggregate: aggregateSnapshots }: typeof prom.AggregatorRegistry = load('prom-client/lib/cluster')

/** Seconds, from a nearby answer to the timeout of a name server. */
const VALIDATION_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60]
/** Seconds; each page is small so that it blocks nothing for long. */
const RETENTION_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
/** Seconds, from a key in a file to a token far away. */
const SIGNING_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** Makes metrics of one registry, all named `service_…`. */
function metricFactory(registry: RegistryOf) {
  const registers = [registry]
  return {
    counter: <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
      new Counter<L>({ name: `service_${name}`, help, labelNames, registers }),
    gauge: <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
      new Gauge<L>({ name: `service_${name}`, help, labelNames, registers }),
    histogram: <L extends string>(name: string, help: string, labelNames: readonly L[], buckets: number[]) =>
      new Histogram<L>({ name: `service_${name}`, help, labelNames, buckets, registers }),
  }
}

type MetricFactory = ReturnType<typeof metricFactory>

/**
 * Names every metric in this one file. Alerting counters with labels start at 0 (`beginAtZero`),
 * because Prometheus sees no increase in a series that begins with its first event.
 */
export function createMetrics() {
  const registry = new Registry()
  const factory = metricFactory(registry)
  return {
    registry,
    requests: new RequestMetrics(),
    ...resourceMetrics(factory),
    ...validationMetrics(factory),
    ...backgroundMetrics(factory),
    ...signingMetrics(factory),
    ...backendMetrics(factory),
    ...refusalMetrics(factory),
    ...crlMetrics(factory),
    ...instanceMetrics(factory),
    ...processMetrics(factory),
  }
}

function resourceMetrics({ counter }: MetricFactory) {
  return {
    accountsCreated: counter('accounts_created_total', 'Accounts registered.'),
    accountsDeactivated: counter('accounts_deactivated_total', 'Accounts deactivated by their holders.'),
    accountsRevoked: counter('accounts_revoked_total', 'Accounts revoked with their binding credential.'),
    ordersCreated: counter('orders_created_total', 'Orders created.'),
    certificatesIssued: counter('certificates_issued_total', 'Certificates signed and recorded.'),
    certificatesRevoked: counter('certificates_revoked_total', 'Certificates revoked.'),
  }
}

function validationMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    challengesValidated: counter('challenges_validated_total', 'Finished validation attempts.', ['result']),
    validationsInterrupted: counter('validations_interrupted_total', 'Validation attempts without a verdict.'),
    validationDuration: histogram(
      'validation_duration_seconds',
      'Time of one validation attempt, from the hand-over to its verdict.',
      ['type'],
      VALIDATION_BUCKETS,
    ),
    validationsKnown: gauge('validations', 'Challenges this instance has in processing.'),
    validationsRunning: gauge('validations_running', 'Validation attempts under way.'),
    validationsWaiting: gauge('validations_waiting', 'Challenges that wait, by what they wait for.', ['for']),
    validationOldestWait: gauge('validation_oldest_wait_seconds', 'Longest wait for a place among those that run.'),
    challengeWorkerPolls: counter('challenge_worker_polls_total', 'Rounds of the challenge worker.'),
    challengeWorkerErrors: counter('challenge_worker_errors_total', 'Failed rounds of the challenge worker.'),
    caaChecks: counter('caa_checks_total', 'CAA checks of a name, at validation and at finalize.', ['result']),
    perspectiveChecks: counter('perspective_checks_total', 'Answers of remote perspectives.', [
      'perspective',
      'check',
      'result',
    ]),
  }
}

function backgroundMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    ordersExpired: counter('orders_expired_total', 'Orders that were not finalized in time.'),
    authorizationsExpired: counter('authorizations_expired_total', 'Authorizations whose time was over.'),
    challengesExpired: counter('challenges_expired_total', 'Challenges that no client met in time.'),
    retentionDeleted: counter('retention_deleted_total', 'Rows that were deleted because of their age.', ['table']),
    retentionPageSeconds: histogram(
      'retention_page_seconds',
      'Time of one transaction of the deletion.',
      ['table'],
      RETENTION_BUCKETS,
    ),
    certificatesArchived: counter('certificates_archived_total', 'Expired certificates written to the archive.'),
    issuancesRecovered: counter('issuances_recovered_total', 'Interrupted issuances taken up again.', ['outcome']),
    expirationWarnings: counter('expiration_warnings_sent_total', 'Warnings of certificates that expire.'),
    expirationErrors: counter('expiration_worker_errors_total', 'Failed rounds of the expiration worker.'),
    certificatesExpiring: gauge(
      'certificates_expiring',
      'Certificates that expire within so many days, revoked ones too; by the instance that looked last.',
      ['days'],
    ),
    workerRuns: counter('cleanup_runs_total', 'Rounds of a background task.', ['task']),
    workerErrors: counter('cleanup_errors_total', 'Failed rounds of a background task.', ['task']),
  }
}

function signingMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    signingSeconds: histogram(
      'signing_seconds',
      'Time of one signature of a certificate, from the request to the answer of the signer.',
      [],
      SIGNING_BUCKETS,
    ),
    caSigningErrors: counter('ca_signing_errors_total', 'Signatures the CA backend did not make.'),
    alarms: counter('alarms_total', 'Broken invariants; each is in the log with its reason.'),
    databaseBehind: gauge('database_behind', '1 while the database lacks what its signer has recorded.'),
    otherDatabases: gauge('other_databases', 'Other databases that use the signer of this one at the same time.'),
    givenUp: gauge('given_up', 'Certificates that the signer has recorded and that do not come back.'),
    reconciled: counter('reconciled_total', 'What was lost in the database and is back from the signer.', ['kind']),
    auditLogBroken: gauge('audit_log_broken', '1 while the end of the audit log is not what it was.'),
    caCircuitOpened: counter(
      'ca_circuit_opened_total',
      'Times that a thread left the CA backend alone after failures in a row.',
    ),
    issuerNotAfter: gauge(
      'issuer_not_after_seconds',
      'notAfter of an issuer certificate of the signer, in seconds since 1970.',
      ['issuer'],
    ),
    signingStopped: gauge('signing_stopped', '1 while the operator has stopped all signing.'),
  }
}

function backendMetrics({ counter, gauge, histogram }: MetricFactory) {
  return {
    backendRequests: counter('backend_requests_total', 'Calls of a CA backend that issues from a CSR.', [
      'backend',
      'operation',
      'result',
    ]),
    backendRequestSeconds: histogram(
      'backend_request_seconds',
      'Time of one call of a CA backend.',
      ['backend', 'operation'],
      VALIDATION_BUCKETS,
    ),
    backendCircuitOpen: gauge('backend_circuit_open', '1 while a CA backend is left alone after failures in a row.', [
      'backend',
    ]),
    backendFailovers: counter('backend_failovers_total', 'Issuances that moved to the next CA backend.', [
      'from',
      'to',
    ]),
    backendIssuances: gauge('backend_issuances', 'Issuances that wait for a CA backend; by the leading instance.', [
      'backend',
    ]),
    backendRevocations: gauge(
      'backend_revocations',
      'Revocations that a CA backend has not confirmed; by the leading instance.',
      ['backend'],
    ),
  }
}

function refusalMetrics({ counter, gauge }: MetricFactory) {
  return {
    notificationsRecorded: counter('notifications_recorded_total', 'Mails that were written, one for each recipient.', [
      'type',
    ]),
    notificationsSent: counter('notifications_sent_total', 'Attempts to send a mail.', ['result']),
    eventDeliveries: counter('event_deliveries_total', 'Deliveries of events.', ['consumer', 'result']),
    logLinesDropped: counter('log_lines_dropped_total', 'Lines of the log that standard output did not take.'),
    eventsDropped: counter('events_dropped_total', 'Events that were lost because too many waited to be written.'),
    rateLimited: counter('rate_limited_total', 'Requests refused by a rate limit or a quota.', ['category']),
    pressureRejections: counter('pool_rejections_total', 'Requests refused by the pool pressure guard.', ['tier']),
    requestsShed: counter('requests_shed_total', 'Requests and connections turned away under overload.', ['reason']),
    overloadedThreads: gauge('overloaded_threads', 'Front threads that are turning requests away.'),
  }
}

function crlMetrics({ counter, gauge }: MetricFactory) {
  return {
    crlBuilds: counter('crl_builds_total', 'Lists that were built, signed and published.', ['crl']),
    crlFailures: counter('crl_build_failures_total', 'Lists that could not be built or signed.', ['crl']),
    crlBuildSeconds: gauge(
      'crl_build_seconds',
      'Seconds that the newest list took, from its first row to its publication.',
      ['crl'],
    ),
    crlNumber: gauge('crl_number', 'Number of the list that is served.', ['crl']),
    crlEntries: gauge('crl_entries', 'Revoked certificates in the list that is served.', ['crl']),
    crlBytes: gauge('crl_bytes', 'Length of the list that is served.', ['crl']),
    crlThisUpdate: gauge('crl_this_update_seconds', 'thisUpdate of the list that is served, in seconds since 1970.', [
      'crl',
    ]),
    crlNextUpdate: gauge('crl_next_update_seconds', 'nextUpdate of the list that is served, in seconds since 1970.', [
      'crl',
    ]),
  }
}

function instanceMetrics({ gauge }: MetricFactory) {
  return {
    maintenance: gauge('maintenance_mode', '1 while in maintenance.'),
    threads: gauge('front_threads', 'Front threads that are running.'),
    uptime: gauge('uptime_seconds', 'Seconds since the service started.'),
    ready: gauge('ready', '1 while requests should be sent here, as /readyz says.'),
    caUp: gauge('ca_up', '1 while the CA backend answers and could sign.'),
    databaseUp: gauge('database_up', '1 while the database answers.'),
    databaseDisk: gauge(
      'database_disk_trouble',
      '1 while the database answers and cannot write: full, or failing (read-only, over its quota, broken).',
      ['kind'],
    ),
  }
}

function processMetrics({ counter, gauge }: MetricFactory) {
  return {
    poolConnections: gauge(
      'pool_connections',
      'Database connections of the front threads, and the most there may be.',
      ['state'],
    ),
    poolWaiting: gauge('pool_waiting', 'Statements of the front threads that wait for a connection.'),
    threadBusy: counter('thread_busy_seconds_total', 'Time in which an event loop was not idle, by kind of thread.', [
      'thread',
    ]),
    processCpu: counter('process_cpu_seconds_total', 'Processor time of the service with all its threads.'),
    processResident: gauge('process_resident_bytes', 'Memory of the service with all its threads.'),
  }
}

export type Metrics = ReturnType<typeof createMetrics>

/** Exports a counter at 0 before its first event. */
export function beginAtZero<L extends string>(counter: CounterOf<L>, ...labels: Record<L, string>[]): void {
  for (const label of labels) counter.inc(label, 0)
}

/** The form in which metrics cross from a thread to the supervisor. */
export type MetricsSnapshot = MetricObject[]

export async function takeSnapshot({ registry, requests }: Metrics): Promise<MetricsSnapshot> {
  const others = await registry.getMetricsAsJSON()
  return [...others, ...requests.export()] as unknown as MetricsSnapshot
}

export const METRICS_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Sums the threads' counters into one exposition. */
export function renderMetrics(snapshots: readonly MetricsSnapshot[]): Promise<string> {
  return aggregate(snapshots).metrics()
}

export function sumSnapshots(snapshots: readonly MetricsSnapshot[]): Promise<MetricsSnapshot> {
  return aggregate(snapshots).getMetricsAsJSON()
}

function aggregate(snapshots: readonly MetricsSnapshot[]) {
  return aggregateSnapshots([...snapshots] as unknown as Parameters<typeof aggregateSnapshots>[0])
}
