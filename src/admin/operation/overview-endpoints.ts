/** `/overview`: what administrators look at first. Its numbers are one statement, each along an index and up to a bound. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { ALARM_CODES, alarmsOf, EMERGENCY_SHOWN_DAYS, type InstanceState } from '../../domain/alarms.ts'
import { OPEN_OUTCOMES } from '../../domain/decision.ts'
import { FAILURE_KINDS } from '../../domain/event.ts'
import { NEVER_SENT, type NotificationStatus } from '../../domain/notification.ts'
import { readWorkers } from '../../store/background-run-store.ts'
import { type HourlyCount, listRaisedAlarms, readEventCounts } from '../../store/event-statistics-store.ts'
import type { Fragment } from '../../store/list-page.ts'
import { queriesOf, rowsOf, sql } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { countEmergencies } from '../audit/audit-store.ts'
import { linkOf } from '../certificates/certificate-details.ts'
import { EXPIRY_DAYS } from '../certificates/expiry-endpoints.ts'
import type { AdminContext } from '../context.ts'
import { time, timeOrNull, timestamp, withTimes } from '../schemas.ts'
import { Crls, crlsBody, readCrlStatus } from './crl-endpoints.ts'
import { issuersOf, type OtherCa, readOtherCas } from './issuer-endpoints.ts'
import {
  Backlog,
  backlogBody,
  Maintenance,
  maintenanceBody,
  Signing,
  signingBody,
  switchPositions,
} from './operation-endpoints.ts'

/** Each number is counted up to this. */
const MOST_COUNTED = 10_000
const HOURS = 24

const upTo = (what: string) => z.int().meta({ description: `${what} Counted up to ${MOST_COUNTED}.` })

const Instance = z
  .strictObject({
    database: z.enum(['ok', 'error', 'pool_exhausted']),
    pool: z.strictObject({ max: z.int(), size: z.int(), available: z.int(), waiting: z.int() }),
    ca_backend: z.strictObject({
      status: z.enum(['ok', 'error', 'stopped']),
      reason: z.string().nullable(),
      tokens: z.array(z.strictObject({ issuer: z.string(), status: z.string(), since: z.string() })),
    }),
    dns_resolver: z.enum(['ok', 'error']).nullable(),
  })
  .meta({ id: 'Instance' })

const Alarm = z
  .strictObject({ severity: z.enum(['error', 'warning']), code: z.enum(ALARM_CODES), message: z.string() })
  .meta({ id: 'Alarm' })

const Overview = z
  .strictObject({
    at: timestamp(),
    since: timestamp().meta({ description: 'The first hour of the last 24: events are counted by the hour.' }),
    version: z.string(),
    alarms: z.array(Alarm).meta({ description: 'The worst first.' }),
    issued: z
      .array(z.strictObject({ hour: timestamp(), certificates: z.int() }))
      .meta({ description: 'The last 24 hours, the oldest first; an hour without certificates is left out.' }),
    issued_of_day: z.int(),
    revoked_of_day: z.int(),
    revoked: z.int().meta({ description: 'Since the database was made.' }),
    failures: z
      .array(z.strictObject({ kind: z.string(), events: z.int() }))
      .meta({ description: 'Of the last 24 hours.' }),
    failures_kept: upTo('Those of the last 24 hours that `/failures` lists: each account keeps its last 50.'),
    expiring: z.array(
      z.strictObject({
        days: z.int(),
        certificates: z.int().meta({ description: 'Unrevoked ones that end within so many days.' }),
        more: z.boolean().meta({ description: `True when only the first ${MOST_COUNTED} were looked at.` }),
      }),
    ),
    crl: Crls,
    issuers: z.array(
      z.strictObject({ id: z.string(), subject: z.string(), fingerprint: z.string(), not_after: timestamp() }),
    ),
    other_cas: z
      .array(
        z.strictObject({
          backend: z.string(),
          issuer: z.string().nullable().meta({ description: 'SHA-256 of its certificate.' }),
          last_issued_at: timestamp().nullable(),
          open: z.int().meta({ description: 'Requests under way.' }),
          failures: z.int().meta({ description: 'The most in a row of one of them.' }),
        }),
      )
      .meta({ description: 'CAs besides the signer, by the newest 10,000 certificates and the requests under way.' }),
    instance: Instance.nullable().meta({ description: 'The one that answers; null when it does not say how it is.' }),
    maintenance: Maintenance,
    signing: Signing,
    validations: z.strictObject({ running: upTo('On all instances.'), oldest_seconds: z.int() }),
    notifications: z.strictObject({
      waiting: upTo('Pending ones.'),
      failed: upTo('Those of all time.'),
      last_sent_at: timestamp().nullable().meta({ description: 'Null when no mail is known to have been sent.' }),
      last_failure: z.strictObject({ at: timestamp(), error: z.string() }).nullable(),
      failing_since: timestamp().nullable().meta({ description: 'Null where the last attempt has sent a mail.' }),
    }),
    consumers: z.array(
      Backlog.extend({
        last_failure: z
          .strictObject({ at: timestamp(), error: z.string() })
          .nullable()
          .meta({ description: 'Of the events that could not be delivered.' }),
      }),
    ),
    dead_letters: upTo('Events that could not be delivered.'),
    more: z
      .strictObject({ failures_kept: z.boolean(), notifications_failed: z.boolean(), dead_letters: z.boolean() })
      .meta({ description: 'True for each of these numbers of which there may be more than were counted.' }),
  })
  .meta({ id: 'Overview' })

function instanceBody({ database, pool, caBackend, dnsResolver }: InstanceState): z.input<typeof Instance> {
  const { status, reason, tokens } = caBackend
  return {
    database,
    pool,
    dns_resolver: dnsResolver ?? null,
    ca_backend: { status, reason: reason ?? null, tokens: [...tokens] },
  }
}

export const OVERVIEW = endpointGroup('Operation', {
  getOverview: endpoint({
    route: 'GET /overview',
    permission: 'read',
    reply: { status: 200, schema: Overview },
    handle: async (_request, { overview }) => ({ octets: await overview() }),
  }),
})

type Sources = Pick<AdminContext, 'db' | 'policy' | 'ask' | 'version'>

export async function readOverview({ db, policy, ask, version }: Sources): Promise<z.input<typeof Overview>> {
  const [
    numbers,
    mail,
    failures,
    counts,
    crl,
    { maintenance, stopSigning },
    workers,
    emergencies,
    raised,
    others,
    instance,
  ] = await Promise.all([
    readOverviewNumbers(db),
    readLastMail(db),
    readLastDeadLetters(db),
    readEventCounts(db, HOURS),
    readCrlStatus(db, policy.staleCrlAfterMs),
    switchPositions(db),
    readWorkers(queriesOf(db)),
    countEmergencies(db, EMERGENCY_SHOWN_DAYS),
    listRaisedAlarms(db),
    readOtherCas(db),
    // The overview shows an instance that does not answer as unknown.
    ask('instance').catch(() => undefined),
  ])
  const alarms = alarmsOf({
    now: numbers.now,
    instance: instance && { ...instance, issuers: [...instance.issuers, ...issuersOf(others)] },
    databaseBehindSince: numbers.behind_since ?? undefined,
    lostDecisions: numbers.lost_decisions,
    crl,
    workers,
    isSigningStopped: stopSigning.on,
    isInMaintenance: maintenance.on,
    deadLetters: numbers.dead_letters,
    failedNotifications: numbers.notifications_failed,
    oldestValidationSeconds: numbers.oldest_validation_seconds,
    failingMail: mail.failing_since && { since: mail.failing_since, error: mail.failure?.error ?? '' },
    raised,
    emergencies,
  })
  const issued = counts.filter(({ kind }) => kind === 'certificate.issuance')
  return {
    at: time(numbers.now),
    since: time(numbers.first_hour),
    version,
    alarms,
    issued: issued.map(({ hour, events }) => ({ hour: time(hour), certificates: events })),
    issued_of_day: sumOf(counts, 'certificate.issuance'),
    revoked_of_day: sumOf(counts, 'certificate.revocation'),
    revoked: numbers.revoked,
    failures: FAILURE_KINDS.map((kind) => ({ kind, events: sumOf(counts, kind) })),
    failures_kept: numbers.failures_kept,
    expiring: expiringOf(numbers),
    crl: crlsBody(crl),
    issuers: [...(instance?.issuers ?? []), ...issuersOf(others)].map(issuerBody),
    other_cas: others.map(otherCaBody),
    instance: instance ? instanceBody(instance) : null,
    maintenance: maintenanceBody(maintenance),
    signing: signingBody(stopSigning),
    validations: { running: numbers.validations, oldest_seconds: numbers.oldest_validation_seconds },
    notifications: mailBody(numbers, mail),
    consumers: workers.consumers.map((backlog) => ({
      ...backlogBody(backlog),
      last_failure: failures.find(({ consumer }) => consumer === backlog.name)?.failure ?? null,
    })),
    dead_letters: numbers.dead_letters,
    more: moreOf(numbers),
  }
}

const mailBody = (numbers: OverviewNumbers, mail: Awaited<ReturnType<typeof readLastMail>>) => ({
  waiting: numbers.notifications_waiting,
  failed: numbers.notifications_failed,
  last_sent_at: timeOrNull(mail.sent_at),
  last_failure: mail.failure,
  failing_since: timeOrNull(mail.failing_since),
})

const moreOf = ({ failures_kept, notifications_failed, dead_letters }: OverviewNumbers) => ({
  failures_kept: failures_kept >= MOST_COUNTED,
  notifications_failed: notifications_failed >= MOST_COUNTED,
  dead_letters: dead_letters >= MOST_COUNTED,
})

const otherCaBody = ({ certificate: _, fingerprint: issuer, ...others }: OtherCa) => ({ ...withTimes(others), issuer })

const issuerBody = ({ id, certificate }: InstanceState['issuers'][number]) => ({
  id,
  ...linkOf(Buffer.from(certificate)),
})

const expiringOf = ({ expiring, counted_until: until, now }: OverviewNumbers) =>
  EXPIRY_DAYS.map((days, index) => ({
    days,
    certificates: expiring[index] ?? 0,
    more: until !== null && until.getTime() < now.getTime() + days * 86_400_000,
  }))

const sumOf = (counts: readonly HourlyCount[], kind: string) =>
  counts.reduce((sum, count) => (count.kind === kind ? sum + count.events : sum), 0)

const WAITING: NotificationStatus = 'pending'
const FAILED: NotificationStatus = 'failed'

const Numbers = z.object({
  /** Unrevoked certificates that end within `EXPIRY_DAYS`, in that order. */
  expiring: z.array(z.int()),
  /** The end of the last certificate that was counted; null when all were. */
  counted_until: z.date().nullable(),
  revoked: z.int(),
  validations: z.int(),
  oldest_validation_seconds: z.int(),
  notifications_waiting: z.int(),
  notifications_failed: z.int(),
  dead_letters: z.int(),
  failures_kept: z.int(),
  behind_since: z.date().nullable(),
  lost_decisions: z.int(),
  first_hour: z.date(),
  now: z.date(),
})
type OverviewNumbers = z.infer<typeof Numbers>

/** Events are counted by the hour. */
const FIRST_HOUR = sql.fragment`(date_trunc('hour', now(), 'UTC') - make_interval(hours => ${HOURS - 1}))`

const endingWithin = (days: number) =>
  sql.fragment`(count(*) FILTER (WHERE revoked_at IS NULL AND not_after < now() + make_interval(days => ${days})))::integer`

const counted = (rows: Fragment) => sql.fragment`(SELECT count(*)::integer FROM (${rows} LIMIT ${MOST_COUNTED}) n)`

/** certificates_not_after, crl_changes, authorizations_validating, notifications_status, event_dead_letters_age, account_failures_time. */
function readOverviewNumbers(db: CommonQueryMethods): Promise<OverviewNumbers> {
  const longest = EXPIRY_DAYS.at(-1) as number
  return db.one(rowsOf(Numbers)`
    SELECT now() AS now, ${FIRST_HOUR} AS first_hour, (SELECT min(behind_since) FROM signer_marks) AS behind_since, e.expiring, e.counted_until, v.validations, v.oldest_validation_seconds,
           (SELECT coalesce(sum(changes), 0)::integer FROM crl_changes) AS revoked,
           ${counted(sql.fragment`SELECT FROM notifications WHERE status = ${WAITING}`)} AS notifications_waiting,
           ${counted(sql.fragment`SELECT FROM notifications WHERE status = ${FAILED} AND notification_type <> ${NEVER_SENT}`)}
             AS notifications_failed,
           ${counted(sql.fragment`SELECT FROM event_dead_letters`)} AS dead_letters,
           ${counted(sql.fragment`SELECT FROM account_failures WHERE occurred_at >= ${FIRST_HOUR}`)} AS failures_kept,
           ${counted(sql.fragment`
             SELECT FROM lost_decisions WHERE outcome = ANY (${sql.array(OPEN_OUTCOMES, 'text')}) AND accepted_at IS NULL`)}
             AS lost_decisions
      FROM (SELECT ARRAY[${sql.join(EXPIRY_DAYS.map(endingWithin), sql.fragment`, `)}] AS expiring,
                   CASE WHEN count(*) = ${MOST_COUNTED} THEN max(not_after) END AS counted_until
              FROM (SELECT not_after, revoked_at FROM certificates
                     WHERE not_after > now() AND not_after < now() + make_interval(days => ${longest})
                     ORDER BY not_after LIMIT ${MOST_COUNTED}) c) e,
           (SELECT count(*)::integer AS validations,
                   greatest(0, coalesce(extract(epoch FROM now() - min(validating_since)), 0))::integer
                     AS oldest_validation_seconds
              FROM (SELECT validating_since FROM authorizations
                     WHERE validating_by IS NOT NULL LIMIT ${MOST_COUNTED}) a) v`)
}

const Mail = z
  .object({
    sent_at: z.date().nullable(),
    failed_at: z.date().nullable(),
    failing_since: z.date().nullable(),
    error: z.string().nullable(),
  })
  .transform(({ failed_at, error, ...mail }) => ({
    ...mail,
    failure: failed_at && withTimes({ at: failed_at, error: error ?? '' }),
  }))

/**
 * Reads what the mail server answered last, to a new mail or to a repeated one. Before its first attempt, a release has no
 * row.
 */
function readLastMail(db: CommonQueryMethods) {
  // notifications_status, from its end
  return db.one(rowsOf(Mail)`
    SELECT coalesce(m.sent_at, (SELECT n.sent_at FROM notifications n WHERE status = 'sent' ORDER BY id DESC LIMIT 1)) AS sent_at,
           m.failed_at, m.failing_since, m.error
      FROM (SELECT) one LEFT JOIN mail_attempts m ON true`)
}

const DeadLetter = z
  .object({ consumer: z.string(), at: z.date(), error: z.string() })
  .transform(({ consumer, ...last }) => ({ consumer, failure: withTimes(last) }))

/** More than a service has consumers. */
const MOST_LOOKED_AT = 1_000

/** The last undelivered event of each consumer. event_dead_letters_age, from its end. */
function readLastDeadLetters(db: CommonQueryMethods) {
  return db.any(rowsOf(DeadLetter)`
    SELECT DISTINCT ON (consumer) consumer, failed_at AS at, left(error, 200) AS error
      FROM (SELECT consumer, failed_at, error FROM event_dead_letters
             ORDER BY failed_at DESC LIMIT ${MOST_LOOKED_AT}) d
     ORDER BY consumer, failed_at DESC`)
}
