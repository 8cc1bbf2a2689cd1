/** Metrics: one registry per thread, merged at each scrape. */

import { AggregatorRegistry, Counter, Gauge, Histogram, type MetricObject, Registry } from 'prom-client'
import { RequestMetrics } from './request-metrics.ts'

/** Seconds, from a nearby answer to the timeout of a name server. */
const VALIDATION_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60]
/** Seconds; each page is small so that it blocks nothing for long. */
const RETENTION_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]

/**
 * Names every metric in this one place. Alerting counters with labels start at 0 (`beginAtZero`),
 * because Prometheus sees no increase in a series that begins with its first event.
 */
export function createMetrics() {
  const registry = new Registry()
  const registers = [registry]
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Counter<L>({ name: `service_${name}`, help, labelNames, registers })
  const gauge = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Gauge<L>({ name: `service_${name}`, help, labelNames, registers })

  return {
    registry,
    accountsCreated: counter('accounts_created_total', 'Accounts registered.'),
    accountsDeactivated: counter('accounts_deactivated_total', 'Accounts deactivated by their holders.'),
    ordersCreated: counter('orders_created_total', 'Orders created.'),
    certificatesIssued: counter('certificates_issued_total', 'Certificates signed and recorded.'),
    certificatesRevoked: counter('certificates_revoked_total', 'Certificates revoked.'),
    challengesValidated: counter('challenges_validated_total', 'Finished validation attempts.', ['result']),
    validationsInterrupted: counter('validations_interrupted_total', 'Validation attempts without a verdict.'),
    validationDuration: new Histogram({
      name: 'service_validation_duration_seconds',
      help: 'Time of one validation attempt, from the hand-over to its verdict.',
      labelNames: ['type'],
      buckets: VALIDATION_BUCKETS,
      registers,
    }),
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
    ordersExpired: counter('orders_expired_total', 'Orders that were not finalized in time.'),
    authorizationsExpired: counter('authorizations_expired_total', 'Authorizations whose time was over.'),
    challengesExpired: counter('challenges_expired_total', 'Challenges that nobody met in time.'),
    retentionDeleted: counter('retention_deleted_total', 'Rows that were deleted because of their age.', ['table']),
    retentionPageSeconds: new Histogram({
      name: 'service_retention_page_seconds',
      help: 'Time of one transaction of the deletion.',
      labelNames: ['table'],
      buckets: RETENTION_BUCKETS,
      registers,
    }),
    caSigningErrors: counter('ca_signing_errors_total', 'Signatures the CA backend did not make.'),
    alarms: counter('alarms_total', 'Broken invariants; each is in the log with its reason.'),
    issuancesRecovered: counter('issuances_recovered_total', 'Interrupted issuances taken up again.', ['outcome']),
    workerRuns: counter('cleanup_runs_total', 'Rounds of a background task.', ['task']),
    workerErrors: counter('cleanup_errors_total', 'Failed rounds of a background task.', ['task']),
    rateLimited: counter('rate_limited_total', 'Requests refused by a rate limit or a quota.', ['category']),
    pressureRejections: counter('pool_rejections_total', 'Requests refused by the pool pressure guard.', ['tier']),
    requests: new RequestMetrics(),
    requestsShed: counter('requests_shed_total', 'Requests and connections turned away under overload.', ['reason']),
    overloadedThreads: gauge('overloaded_threads', 'Front threads that are turning requests away.'),
    maintenance: gauge('maintenance_mode', '1 while in maintenance.'),
    threads: gauge('front_threads', 'Front threads that are running.'),
    uptime: gauge('uptime_seconds', 'Seconds since the service started.'),
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
    ready: gauge('ready', '1 while requests should be sent here, as /readyz says.'),
    caUp: gauge('ca_up', '1 while the CA backend answers and could sign.'),
    databaseUp: gauge('database_up', '1 while the database answers.'),
    issuerNotAfter: gauge(
      'issuer_not_after_seconds',
      'notAfter of an issuer certificate of the signer, in seconds since 1970.',
      ['issuer'],
    ),
    signingStopped: new Gauge({
      name: 'service_signing_stopped',
      help: '1 while the operator has stopped all signing.',
      registers,
    }),
    caCircuitOpened: new Counter({
      name: 'service_ca_circuit_opened_total',
      help: 'Times that a thread left the CA backend alone after failures in a row.',
      registers,
    }),
  }
}

export type Metrics = ReturnType<typeof createMetrics>

/** Exports a counter at 0 before its first event. */
export function beginAtZero<L extends string>(counter: Counter<L>, ...labels: Record<L, string>[]): void {
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
  return AggregatorRegistry.aggregate([...snapshots] as unknown as Parameters<typeof AggregatorRegistry.aggregate>[0])
}
