/** What administrators look at first: numbers, state and alarms, for one reply. */

import type { DatabasePool } from 'slonik'
import type { InstanceState, WorkersStatus } from '../../domain/alarms.ts'
import { type Alarm, alarmsOf } from '../../domain/alarms.ts'
import { FAILURE_KINDS } from '../../domain/event.ts'
import { fingerprintSha256, parseCertificate } from '../../shared/pki/certificate.ts'
import { formatName } from '../../shared/pki/name.ts'
import { type HourlyCount, readEventCounts } from '../../store/event-statistics-store.ts'
import type { SwitchPosition } from '../../store/server-settings.ts'
import type { CrlLists, CrlStatus } from './crl-lists.ts'
import { EXPIRY_DAYS, type OverviewNumbers, readOverviewNumbers } from './overview-store.ts'
import type { Switches } from './switches.ts'

export interface OverviewOptions {
  db: DatabasePool
  crls: CrlLists
  switches: Switches
  workers(): Promise<WorkersStatus>
  /** Of the instance that answers. @throws when it does not say */
  instance(): Promise<InstanceState>
}

export interface Overview {
  numbers: OverviewNumbers
  /** `isMore` when there are so many that not all were counted. */
  expiring: { days: number; certificates: number; isMore: boolean }[]
  issued: { hour: Date; certificates: number }[]
  issuedOfDay: number
  revokedOfDay: number
  failures: { kind: string; events: number }[]
  crl: CrlStatus
  maintenance: SwitchPosition
  signing: SwitchPosition
  instance: InstanceState | undefined
  issuers: { id: string; subject: string; fingerprint: string; notAfter: Date }[]
  alarms: Alarm[]
}

const HOURS = 24

export async function readOverview(options: OverviewOptions): Promise<Overview> {
  const { db, crls, switches } = options
  const [numbers, counts, crl, positions, workers, instance] = await Promise.all([
    readOverviewNumbers(db),
    readEventCounts(db, HOURS),
    crls.status(),
    switches.positions(),
    options.workers(),
    // The overview shows an instance that does not answer as unknown.
    options.instance().catch(() => undefined),
  ])
  const { maintenance, stopSigning: signing } = positions
  const alarms = alarmsOf({
    now: numbers.now,
    instance,
    crl,
    workers,
    isSigningStopped: signing.on,
    isInMaintenance: maintenance.on,
    deadLetters: numbers.dead_letters,
    failedNotifications: numbers.notifications_failed,
    oldestValidationSeconds: numbers.oldest_validation_seconds,
    alarmEvents: sumOf(counts, 'alarm'),
  })
  return {
    numbers,
    crl,
    maintenance,
    signing,
    instance,
    alarms,
    expiring: expiringOf(numbers),
    issued: ofKind(counts, 'certificate.issuance').map(({ hour, events }) => ({ hour, certificates: events })),
    issuedOfDay: sumOf(counts, 'certificate.issuance'),
    revokedOfDay: sumOf(counts, 'certificate.revocation'),
    failures: FAILURE_KINDS.map((kind) => ({ kind, events: sumOf(counts, kind) })),
    issuers: (instance?.issuers ?? []).map(({ id, certificate, notAfter }) => {
      const der = Buffer.from(certificate)
      return {
        id,
        notAfter,
        subject: formatName(parseCertificate(der).tbs.subject),
        fingerprint: fingerprintSha256(der),
      }
    }),
  }
}

function expiringOf({ expiring, counted_until: until, now }: OverviewNumbers) {
  return EXPIRY_DAYS.map((days, index) => ({
    days,
    certificates: expiring[index] ?? 0,
    isMore: until !== null && until.getTime() < now.getTime() + days * 86_400_000,
  }))
}

const ofKind = (counts: readonly HourlyCount[], kind: string) => counts.filter((count) => count.kind === kind)
const sumOf = (counts: readonly HourlyCount[], kind: string) =>
  ofKind(counts, kind).reduce((sum, { events }) => sum + events, 0)
