/** How instances and their tasks are doing, and the alarms that follow for an administrator. Pure. */

import { plural } from '../shared/lib/plural.ts'

export interface InstanceState {
  database: 'ok' | 'error' | 'pool_exhausted'
  databaseReason?: string | undefined
  pool: { max: number; size: number; available: number; waiting: number }
  caBackend: {
    status: 'ok' | 'error' | 'stopped'
    /** In words that anyone may read. */
    reason: string | undefined
    /** Issuers whose keys are in a token. */
    tokens: readonly { issuer: string; status: string; since: string }[]
  }
  /** Undefined when no name server is configured. */
  dnsResolver: 'ok' | 'error' | undefined
  /** The issuers with which the signer signs now. */
  issuers: readonly { id: string; certificate: Uint8Array; notAfter: Date }[]
}

/** Runs of one task since the last report of this instance. */
export interface TaskRuns {
  task: string
  lastRunAt: Date
  nextRunAt: Date
  /** How many of them failed. */
  errors: number
  lastError: string | undefined
}

export interface TaskStatus {
  name: string
  /** Instance that ran it last. */
  leader: number
  leaderIsAlive: boolean
  lastRunAt: Date
  nextRunAt: Date
  /** Failed runs since the table was made. */
  errors: number
  lastError: string | null
  failedAt: Date | null
}

export interface ConsumerBacklog {
  name: string
  /** Events, at most 1000. */
  waiting: number
  oldestSeconds: number
}

export interface WorkersStatus {
  tasks: readonly TaskStatus[]
  consumers: readonly ConsumerBacklog[]
}

/** Longer than any pause between two attempts. */
const BEHIND_SECONDS = 300

export const isBehind = ({ oldestSeconds }: ConsumerBacklog) => oldestSeconds > BEHIND_SECONDS

export interface Alarm {
  severity: 'error' | 'warning'
  /** Stable; says which page helps. */
  code: AlarmCode
  message: string
}

export const ALARM_CODES = [
  'instance',
  'database',
  'database_behind',
  'lost_decisions',
  'signer',
  'token',
  'issuer',
  'crl',
  'name_server',
  'signing_stopped',
  'maintenance',
  'task',
  'consumer',
  'dead_letters',
  'mail',
  'notifications',
  'validations',
  'alarm_event',
  'emergency',
] as const
type AlarmCode = (typeof ALARM_CODES)[number]

export interface AlarmFacts {
  now: Date
  /** Undefined when the instance did not answer. */
  instance: InstanceState | undefined
  /** Since when the database lacks what its signer has recorded. */
  databaseBehindSince: Date | undefined
  /** Acts that a fail-over has lost, wholly or in part, and that nobody has accepted. */
  lostDecisions: number
  crl: { isPublished: boolean; isStale: boolean; obstacle: string | undefined }
  isSigningStopped: boolean
  isInMaintenance: boolean
  workers: WorkersStatus
  deadLetters: number
  failedNotifications: number
  oldestValidationSeconds: number
  /** Null where the last mail went out, or none was tried. */
  failingMail: { since: Date; error: string } | null
  /** Events of the kind `alarm` within a day, the last first. */
  raised: readonly RaisedAlarm[]
  /** Acts without the approval that they needed, within EMERGENCY_SHOWN_DAYS. */
  emergencies: number
}

/** Events of the kind `alarm` with the same text. */
export interface RaisedAlarm {
  message: string
  reason: string | null
  times: number
  lastAt: Date
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
export const EMERGENCY_SHOWN_DAYS = 7
const ISSUER_WARNING_DAYS = 90
const ISSUER_ERROR_DAYS = 14
/** A task that failed this lately is shown. */
const TASK_FAILURE_MS = HOUR_MS
/** A trouble that lasts is raised again, or has an alarm of its own. */
const RAISED_NOW_MS = HOUR_MS
/** Longer than an attempt with all its retries within one claim. */
const OLD_VALIDATION_SECONDS = 600

/** The worst alarms come first. */
export function alarmsOf(facts: AlarmFacts): Alarm[] {
  const alarms = [...instanceAlarms(facts), ...operationAlarms(facts), ...backgroundAlarms(facts)]
  return [
    ...alarms.filter(({ severity }) => severity === 'error'),
    ...alarms.filter((one) => one.severity === 'warning'),
  ]
}

const error = (code: AlarmCode, message: string): Alarm => ({ severity: 'error', code, message })
const warning = (code: AlarmCode, message: string): Alarm => ({ severity: 'warning', code, message })

function* instanceAlarms({ instance, now }: AlarmFacts): Generator<Alarm> {
  if (!instance) return yield error('instance', 'the instance that answers does not say how it is')
  const { database, databaseReason, caBackend, dnsResolver, issuers } = instance
  if (database === 'error') yield error('database', databaseReason ?? 'the database does not answer')
  if (database === 'pool_exhausted') yield error('database', 'all database connections are in use')
  if (caBackend.status === 'error') yield error('signer', caBackend.reason ?? 'the CA backend does not sign')
  for (const { issuer, status } of caBackend.tokens)
    if (status !== 'ready') yield error('token', `the token with the key of ${issuer} is ${status}`)
  if (dnsResolver === 'error') yield warning('name_server', 'no name server of dns.resolvers answers')
  for (const { id, notAfter } of issuers) {
    const days = Math.floor((notAfter.getTime() - now.getTime()) / DAY_MS)
    if (days < 0) yield error('issuer', `the certificate of the issuer ${id} has expired`)
    else if (days < ISSUER_WARNING_DAYS) {
      const severity = days < ISSUER_ERROR_DAYS ? error : warning
      yield severity('issuer', `the certificate of the issuer ${id} ends in ${days} days`)
    }
  }
}

function* operationAlarms(facts: AlarmFacts): Generator<Alarm> {
  const { crl, databaseBehindSince, lostDecisions, isSigningStopped, isInMaintenance, raised, emergencies } = facts
  if (databaseBehindSince)
    yield error(
      'database_behind',
      `since ${databaseBehindSince.toISOString()} the database lacks what the signer has recorded`,
    )
  if (lostDecisions > 0)
    yield error('lost_decisions', `a fail-over has lost ${plural(lostDecisions, 'act')}: repeat what you still want`)
  if (isSigningStopped) yield error('signing_stopped', 'signing is stopped: no certificate and no CRL is signed')
  if (isInMaintenance) yield warning('maintenance', 'maintenance mode is on: new orders are refused')
  if (crl.isPublished && crl.isStale)
    yield error('crl', crl.obstacle === undefined ? 'a CRL is stale' : `a CRL is stale: ${crl.obstacle}`)
  if (emergencies > 0)
    yield error(
      'emergency',
      `within ${EMERGENCY_SHOWN_DAYS} days ${plural(emergencies, 'act')} on the host went without approval: see approval.emergency in the audit log`,
    )
  for (const { message, reason, times, lastAt } of raised) {
    const severity = facts.now.getTime() - lastAt.getTime() < RAISED_NOW_MS ? error : warning
    const text = reason === null ? message : `${message}: ${reason}`
    yield severity('alarm_event', `${text} (${times === 1 ? '' : `${times} times, last `}at ${lastAt.toISOString()})`)
  }
}

function* backgroundAlarms(facts: AlarmFacts): Generator<Alarm> {
  const { now, workers, deadLetters, failingMail, failedNotifications, oldestValidationSeconds } = facts
  for (const { name, failedAt, lastRunAt, lastError } of workers.tasks) {
    const hasFailed = failedAt !== null && failedAt >= lastRunAt && now.getTime() - failedAt.getTime() < TASK_FAILURE_MS
    if (hasFailed) yield warning('task', `the task ${name} has failed: ${lastError ?? 'for no known reason'}`)
  }
  for (const consumer of workers.consumers)
    if (isBehind(consumer)) yield warning('consumer', `events wait for ${consumer.name}`)
  if (deadLetters > 0) yield warning('dead_letters', `${plural(deadLetters, 'event')} could not be delivered`)
  if (failingMail)
    yield error('mail', `no mail has gone out since ${failingMail.since.toISOString()}: ${failingMail.error}`)
  if (failedNotifications > 0)
    yield warning('notifications', `${plural(failedNotifications, 'notification')} could not be sent`)
  if (oldestValidationSeconds > OLD_VALIDATION_SECONDS)
    yield warning('validations', `a validation has gone on for ${Math.floor(oldestValidationSeconds / 60)} minutes`)
}
