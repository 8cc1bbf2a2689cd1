/** The panels of the Grafana board, row by row: what an operator looks at first stands first. */

import { count, gauge, quantile, rate, recorded, secondsSince, secondsUntil } from './queries.ts'

/** Grafana's names of units. */
type Unit = 'short' | 'ops' | 's' | 'bytes' | 'percentunit'

export interface Panel {
  title: string
  unit: Unit
  /** One number in place of a chart. */
  isNumber?: true
  /** Queries, each with the legend of its series. */
  queries: readonly (readonly [expr: string, legend: string])[]
}

export interface Row {
  title: string
  panels: readonly Panel[]
}

const number = (title: string, unit: Unit, expr: string): Panel => ({
  title,
  unit,
  isNumber: true,
  queries: [[expr, title]],
})
const chart = (title: string, unit: Unit, ...queries: Panel['queries'][number][]): Panel => ({ title, unit, queries })

const now: Row = {
  title: 'Now',
  panels: [
    number('Instances ready', 'short', gauge('sum', 'ready')),
    number('Signer up', 'short', gauge('min', 'caUp')),
    number('Database up', 'short', gauge('min', 'databaseUp')),
    number('Database disk full or failing', 'short', gauge('max', 'databaseDisk')),
    number('Alarms in this time', 'short', count('alarms', {}, '$__range')),
    number('Certificates in this time', 'short', count('certificatesIssued', {}, '$__range')),
    number('Certificates a second', 'ops', rate('certificatesIssued')),
    number('Signing stopped', 'short', gauge('max', 'signingStopped')),
    number('In maintenance', 'short', gauge('max', 'maintenance')),
    number('Database behind its signer', 'short', gauge('max', 'databaseBehind')),
    number('Certificates that do not come back', 'short', gauge('max', 'givenUp')),
    number('Other databases at the signer', 'short', gauge('max', 'otherDatabases')),
    number('Audit log broken', 'short', gauge('max', 'auditLogBroken')),
    number('First CRL runs out in', 's', `min(${secondsUntil('crlNextUpdate', 'crl')})`),
    number('First issuer ends in', 's', `min(${secondsUntil('issuerNotAfter', 'issuer')})`),
  ],
}

const issuance: Row = {
  title: 'Issuance',
  panels: [
    chart(
      'Orders and certificates',
      'ops',
      [rate('ordersCreated'), 'orders created'],
      [rate('certificatesIssued'), 'certificates issued'],
      [rate('certificatesRevoked'), 'certificates revoked'],
      [rate('ordersExpired'), 'orders expired'],
    ),
    chart('Requests by status', 'ops', [rate('requestsAnswered', { by: 'status' }), '{{status}}']),
    chart(
      'Time of a request',
      's',
      [quantile(0.5, 'requestSeconds'), 'half'],
      [quantile(0.95, 'requestSeconds'), '95 %'],
      [quantile(0.99, 'requestSeconds'), '99 %'],
    ),
    // `none` is what no client waits for: /metrics, and paths that nothing is at.
    chart('Time by resource, 95 %', 's', [
      quantile(0.95, 'requestSeconds', 'resource', 'resource!="none"'),
      '{{resource}}',
    ]),
    chart(
      'Accounts',
      'ops',
      [rate('accountsCreated'), 'registered'],
      [rate('accountsDeactivated'), 'deactivated'],
      [rate('accountsRevoked'), 'revoked'],
    ),
    chart('Certificates that expire within so many days', 'short', [
      gauge('max', 'certificatesExpiring', { by: 'days' }),
      '{{days}} days',
    ]),
  ],
}

const failures: Row = {
  title: 'Failures',
  panels: [
    chart('Refused and failed requests', 'ops', [
      rate('requestsAnswered', { by: 'status', only: 'status=~"[45].."' }),
      '{{status}}',
    ]),
    chart(
      'Issuances',
      'short',
      [count('caSigningErrors'), 'signatures not made'],
      [count('issuancesRecovered', { by: 'outcome' }), 'taken up again: {{outcome}}'],
      [count('reconciled', { by: 'kind' }), 'back from the signer: {{kind}}'],
    ),
    chart('Alarms', 'short', [count('alarms', { by: 'instance' }), '{{instance}}']),
    chart('Failed rounds of background tasks', 'short', [count('workerErrors', { by: 'task' }), '{{task}}']),
    chart(
      'Failed rounds of workers',
      'short',
      [count('challengeWorkerErrors'), 'challenges'],
      [count('expirationErrors'), 'expiration warnings'],
      [count('crlFailures', { by: 'crl' }), 'CRL {{crl}}'],
    ),
    chart('Rounds of background tasks', 'ops', [rate('workerRuns', { by: 'task' }), '{{task}}']),
  ],
}

const validation: Row = {
  title: 'Validation',
  panels: [
    chart(
      'Attempts',
      'ops',
      [rate('challengesValidated', { by: 'result' }), '{{result}}'],
      [rate('validationsInterrupted'), 'without a verdict'],
    ),
    chart(
      'Time of an attempt',
      's',
      [quantile(0.5, 'validationDuration', 'type'), '{{type}}, half'],
      [quantile(0.95, 'validationDuration', 'type'), '{{type}}, 95 %'],
    ),
    chart(
      'The queue',
      'short',
      [gauge('sum', 'validationsKnown'), 'in processing'],
      [gauge('sum', 'validationsRunning'), 'running'],
      [gauge('sum', 'validationsWaiting', { by: 'for' }), 'wait for {{for}}'],
    ),
    chart('Longest wait for a place', 's', [gauge('max', 'validationOldestWait', { by: 'instance' }), '{{instance}}']),
    chart('CAA checks', 'ops', [rate('caaChecks', { by: 'result' }), '{{result}}']),
    chart('Remote perspectives', 'ops', [
      rate('perspectiveChecks', { by: 'perspective, check, result' }),
      '{{perspective}}, {{check}}: {{result}}',
    ]),
    chart(
      'Ended without a proof',
      'ops',
      [rate('challengesExpired'), 'challenges'],
      [rate('authorizationsExpired'), 'authorizations'],
    ),
    chart('Rounds of the challenge worker', 'ops', [rate('challengeWorkerPolls'), 'rounds']),
  ],
}

const signing: Row = {
  title: 'Signer and other backends',
  panels: [
    chart(
      'Time of a signature',
      's',
      [quantile(0.5, 'signingSeconds'), 'half'],
      [quantile(0.95, 'signingSeconds'), '95 %'],
      [quantile(0.99, 'signingSeconds'), '99 %'],
    ),
    chart(
      'Errors of the signer',
      'short',
      [count('caSigningErrors'), 'signatures not made'],
      [count('caCircuitOpened'), 'circuit breaker opened'],
    ),
    chart('Issuers end in', 's', [secondsUntil('issuerNotAfter', 'issuer'), '{{issuer}}']),
    chart('Calls of backends', 'ops', [
      rate('backendRequests', { by: 'backend, operation, result' }),
      '{{backend}}, {{operation}}: {{result}}',
    ]),
    chart('Time of a call of a backend, 95 %', 's', [
      quantile(0.95, 'backendRequestSeconds', 'backend, operation'),
      '{{backend}}, {{operation}}',
    ]),
    chart(
      'Backends',
      'short',
      [gauge('max', 'backendCircuitOpen', { by: 'backend' }), '{{backend}}, left alone'],
      [gauge('max', 'backendIssuances', { by: 'backend' }), '{{backend}}, issuances that wait'],
      [gauge('max', 'backendRevocations', { by: 'backend' }), '{{backend}}, revocations that wait'],
      [count('backendFailovers', { by: 'from, to' }), 'moved from {{from}} to {{to}}'],
    ),
  ],
}

const crl: Row = {
  title: 'Revocation lists',
  panels: [
    chart('Age', 's', [secondsSince('crlThisUpdate', 'crl'), '{{crl}}']),
    chart('Run out in', 's', [secondsUntil('crlNextUpdate', 'crl'), '{{crl}}']),
    chart(
      'Builds',
      'short',
      [count('crlBuilds', { by: 'crl' }), '{{crl}}'],
      [count('crlFailures', { by: 'crl' }), '{{crl}}, failed'],
    ),
    chart('Time of the newest build', 's', [gauge('max', 'crlBuildSeconds', { by: 'crl' }), '{{crl}}']),
    chart('Revoked certificates', 'short', [gauge('max', 'crlEntries', { by: 'crl' }), '{{crl}}']),
    chart('Length', 'bytes', [gauge('max', 'crlBytes', { by: 'crl' }), '{{crl}}']),
    chart('Number', 'short', [gauge('max', 'crlNumber', { by: 'crl' }), '{{crl}}']),
  ],
}

const database: Row = {
  title: 'Database',
  panels: [
    chart('Connections', 'short', [gauge('sum', 'poolConnections', { by: 'state' }), '{{state}}']),
    chart('Statements that wait', 'short', [gauge('sum', 'poolWaiting', { by: 'instance' }), '{{instance}}']),
    chart('Requests refused by the pool', 'ops', [rate('pressureRejections', { by: 'tier' }), '{{tier}}']),
    chart('Rows deleted for their age', 'ops', [rate('retentionDeleted', { by: 'table' }), '{{table}}']),
    chart('Time of one deletion, 95 %', 's', [quantile(0.95, 'retentionPageSeconds', 'table'), '{{table}}']),
    chart('Certificates archived', 'ops', [rate('certificatesArchived'), 'archived']),
  ],
}

const refusals: Row = {
  title: 'Overload and limits',
  panels: [
    chart('Turned away under overload', 'ops', [rate('requestsShed', { by: 'reason' }), '{{reason}}']),
    chart('Front threads that turn away', 'short', [
      gauge('sum', 'overloadedThreads', { by: 'instance' }),
      '{{instance}}',
    ]),
    chart('Refused by a limit or quota', 'ops', [rate('rateLimited', { by: 'category' }), '{{category}}']),
  ],
}

const events: Row = {
  title: 'Events and mail',
  panels: [
    chart('Deliveries of events', 'ops', [
      rate('eventDeliveries', { by: 'consumer, result' }),
      '{{consumer}}: {{result}}',
    ]),
    chart(
      'Events and lines of the log lost',
      'short',
      [count('eventsDropped'), 'events'],
      [count('logLinesDropped'), 'lines'],
    ),
    chart(
      'Mails',
      'ops',
      [rate('notificationsRecorded', { by: 'type' }), 'written: {{type}}'],
      [rate('notificationsSent', { by: 'result' }), 'sent: {{result}}'],
      [rate('expirationWarnings'), 'warnings of expiry'],
    ),
  ],
}

const machine: Row = {
  title: 'Process',
  panels: [
    chart('Memory', 'bytes', [gauge('sum', 'processResident', { by: 'instance' }), '{{instance}}']),
    chart('Processors in use', 'short', [rate('processCpu', { by: 'instance' }), '{{instance}}']),
    chart(
      'Event loops that are busy',
      'percentunit',
      [
        `${rate('threadBusy', { by: 'instance', only: 'thread="front"' })} / ${gauge('sum', 'threads', { by: 'instance' })}`,
        '{{instance}}, each front',
      ],
      [rate('threadBusy', { by: 'instance, thread', only: 'thread!="front"' }), '{{instance}}, {{thread}}'],
    ),
    chart('Front threads', 'short', [gauge('sum', 'threads', { by: 'instance' }), '{{instance}}']),
    chart('Time since the start', 's', [gauge('max', 'uptime', { by: 'instance' }), '{{instance}}']),
  ],
}

const weeks: Row = {
  title: 'Over weeks (needs prometheus-recording-rules.yml)',
  panels: [
    chart(
      'Orders and certificates',
      'ops',
      [recorded('job:service_orders_created:rate5m'), 'orders created'],
      [recorded('job:service_certificates_issued:rate5m'), 'certificates issued'],
    ),
    chart(
      'Share that fails',
      'percentunit',
      [recorded('job:service_http_requests_failed:ratio_rate5m'), 'requests with 5xx'],
      [recorded('job:service_challenges_failed:ratio_rate5m'), 'validation attempts'],
    ),
    chart(
      'Time, 99 %',
      's',
      [recorded('job:service_http_request_duration_seconds:p99_5m'), 'request'],
      [recorded('job:service_validation_duration_seconds:p99_5m'), 'validation attempt'],
      [recorded('job:service_signing_seconds:p99_5m'), 'signature'],
    ),
  ],
}

export const ROWS: readonly Row[] = [
  now,
  issuance,
  failures,
  validation,
  signing,
  crl,
  database,
  refusals,
  events,
  machine,
  weeks,
]
