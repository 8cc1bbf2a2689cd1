/** The comparison of the database with the signer in the supervisor: its parts, and what is reported of it. */

import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { ANNOUNCE_MS } from '../../../signer/protocol/methods.ts'
import { PART_THEM, type RecordDamage, SHARED } from '../../ca/signer-records.ts'
import type { CheckStatus } from '../../domain/health.ts'
import { storyOf } from '../../domain/lost-decisions.ts'
import { beginAtZero } from '../../ops/metrics.ts'
import { startLoop } from '../../runtime/loop.ts'
import { Reconciliation, type ReconciliationEvents } from '../../services/reconcile/reconciliation.ts'
import { Restoration, type RestorationEvents } from '../../services/reconcile/restoration.ts'
import { SignerComparison } from '../../services/reconcile/signer-comparison.ts'
import { SignerUseWatch } from '../../services/reconcile/signer-use-watch.ts'
import { plural } from '../../shared/lib/plural.ts'
import { restorationStore } from '../../store/certificate-import.ts'
import { slowNow } from '../../store/clock-store.ts'
import { createDecisionStore, type LostDecision } from '../../store/decision-store.ts'
import { readIncarnation } from '../../store/incarnation.ts'
import type { AdminThread } from '../admin/start-admin.ts'
import type { ReconciledFacts } from '../messages.ts'
import { type Reporting, raiseAlarm } from '../service-events.ts'
import type { StartContext } from '../start-context.ts'
import type { DatabasePart } from '../start-database.ts'
import type { CaPart, IssuancePart } from './start-ca.ts'

export interface ReconciliationPart {
  reconciliation: Reconciliation
  /** `error` while the database lacks a record, or another database uses the signer. */
  status(): CheckStatus
  /** Whether a copy of the database uses the signer. */
  isCopied(): boolean
  /** The admin thread starts later, and has the key of the audit log. */
  reportTo(admin: Pick<AdminThread, 'noteReconciled'>): void
}

/** @returns undefined when no certificate is signed here */
export function startReconciliation(
  { config, metrics, log, now, parts }: StartContext,
  { db, eventWriter }: DatabasePart,
  { ca }: Pick<CaPart, 'ca'>,
  { stores, issuance }: Pick<IssuancePart, 'stores' | 'issuance'>,
): ReconciliationPart | undefined {
  const { records } = ca
  if (!records) return undefined
  const isStopping = () => now.stopping
  const decisions = createDecisionStore(db)
  const use = new SignerUseWatch({
    records,
    async place() {
      const [{ id }, { incarnation }] = await Promise.all([decisions.identity(), readIncarnation(db)])
      return { database: id, incarnation }
    },
    requester: `${hostname()} ${config.server.external_url}`.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 200),
    onAnswer: (others) => metrics.otherDatabases.set(others),
  })
  const { takeUntold } = decisions
  const report = new Report({ metrics, log, eventWriter, isStopping, use, takeUntold })
  const restoration = new Restoration({
    records,
    ca,
    saveIssuer: issuance.saveIssuer,
    store: restorationStore(db, stores.issuance),
    events: report.restored(),
  })
  const comparison = new SignerComparison({
    records,
    marks: stores.marks,
    crls: stores.crls,
    restoration,
    now: () => slowNow(db),
    intentSeconds: config.ca.deferred_signing_timeout,
    expiredAfterDays:
      config.retention.certificates_days_after_expiry === null ? undefined : config.ca.max_validity_days,
    onMissing: () => reconciliation.noteBehind(),
    onStrangeTimes: report.strangeTimes(),
    isStopping,
  })
  const reconciliation: Reconciliation = new Reconciliation({
    records,
    marks: stores.marks,
    comparison,
    mode: config.database.reconcile,
    events: report.events(),
    isStopping,
  })
  const announcements = startLoop({
    name: 'database_announcement',
    intervalMs: ANNOUNCE_MS,
    round: () => use.announce(),
    onError: (_, error) => log.debug({ err: error }, 'the database could not be announced at the signer'),
  })
  parts.add('announcements of the database', announcements, async (loop) => {
    await loop.stop()
    await report.reportHeld()
  })
  return {
    reconciliation,
    isCopied: () => use.isCopied,
    status: () => (reconciliation.isBehind || use.isShared ? 'error' : 'ok'),
    reportTo: (admin) => report.reportTo(admin),
  }
}

const ENTRY_AGAIN_MS = 5_000
/** The story is reported after this time even if the signer never settles who else is there. */
const MOST_HELD_MS = 120_000
/** The instance that restored certificates reports the decisions with them, once the signer has settled who else is there. */
const OTHERS_FIRST_MS = 4 * ANNOUNCE_MS
/** Serial numbers in an alarm; `chancery reconcile` has all. */
const MOST_NAMED = 10
const NOTHING: ReconciledFacts = { certificates: 0, without_order: 0, revocations: 0, given_up: 0 }

interface ReportParts extends Reporting {
  isStopping(): boolean
  use: Pick<SignerUseWatch, 'isShared' | 'isCopied' | 'isAlone' | 'doubt' | 'takeAlarm'>
  /** Gives lost decisions, each once; none while one was found within this time. */
  takeUntold(minAgeMs: number): Promise<readonly LostDecision[]>
}

/** Counts what comes back until all of it is there; then come one alarm and one entry of the audit log. */
export class Report {
  readonly #parts: ReportParts
  #back = { ...NOTHING }
  #admin: Pick<AdminThread, 'noteReconciled'> | undefined
  #unreported: ReconciledFacts[] = []
  /** Reasons of alarms that wait until it is known whether another database made what was missing. */
  #held: string[] = []
  /** The time of the last report, by `performance.now()`. */
  #heldSince = performance.now()
  /** Serial numbers of what does not come back. */
  #lost: string[] = []

  constructor(parts: ReportParts) {
    this.#parts = parts
    beginAtZero(parts.metrics.reconciled, { kind: 'certificate' }, { kind: 'revocation' })
  }

  reportTo(admin: Pick<AdminThread, 'noteReconciled'>): void {
    this.#admin = admin
    void this.#leaveEntries()
  }

  /** Repeats each entry until it is written: the admin thread may still start, and the database may hang. */
  async #leaveEntries(): Promise<void> {
    const { isStopping } = this.#parts
    while (this.#admin && this.#unreported[0] && !isStopping())
      if (await this.#admin.noteReconciled(this.#unreported[0])) this.#unreported.shift()
      else await sleep(ENTRY_AGAIN_MS, undefined, { ref: false })
  }

  restored(): RestorationEvents {
    const { metrics, log } = this.#parts
    return {
      certificate: ({ id, accountId, orderId, serialNumber, names }) => {
        metrics.reconciled.inc({ kind: 'certificate' })
        this.#back.certificates += 1
        if (orderId === undefined) this.#back.without_order += 1
        const facts = { certificateId: id, accountId, orderId, serialNumber, names }
        log.warn({ event: 'certificate_restored', ...facts }, 'a certificate is back from the signer')
      },
      revocation: ({ id, serialNumber, reason }) => {
        metrics.reconciled.inc({ kind: 'revocation' })
        this.#back.revocations += 1
        const facts = { certificateId: id, serialNumber, reason }
        log.warn({ event: 'revocation_restored', ...facts }, 'a revocation is back from the signer')
      },
      givenUp: (line) => {
        this.#back.given_up += 1
        this.#lost.push(line.serialNumber)
        log.error({ event: 'restoration_given_up', ...line }, 'a certificate does not come back from the signer')
      },
    }
  }

  /** Reports each serial number once: a comparison from the beginning finds it again. */
  strangeTimes(): (serialNumbers: readonly string[]) => void {
    const told = new Set<string>()
    return (serialNumbers) => {
      const untold = serialNumbers.filter((serialNumber) => !told.has(serialNumber))
      if (untold.length === 0) return
      for (const serialNumber of untold) told.add(serialNumber)
      const reason = `the clock of who noted ${plural(untold.length, 'revocation')} was wrong, or a stranger did; they count as of now`
      this.#raise(reason, 'the signer has revocations of a time that has not come', {
        serialNumbers: untold.slice(0, 20),
      })
    }
  }

  events(): ReconciliationEvents {
    const { log } = this.#parts
    return {
      behind: (found) => {
        const facts = found ?? {}
        log.error({ event: 'database_behind', ...facts }, 'the database lacks what the signer has recorded')
        if (found) this.#hold(`${countsOf(found)} are to be brought back with: chancery reconcile`)
      },
      complete: (since) => {
        const back = this.#back
        this.#back = { ...NOTHING }
        log.warn({ event: 'database_whole', since, ...back }, 'the database has what the signer has recorded')
        if (back.certificates + back.revocations + back.given_up === 0) return
        if (this.#unreported.push(back) === 1) void this.#leaveEntries()
        const lost =
          back.given_up > 0
            ? `; ${plural(back.given_up, 'certificate')} did not come back, the log says why: ${this.#lost.splice(0).slice(0, MOST_NAMED).join(', ')}`
            : ''
        const reason = `${countsOf(back)} are back from the signer, ${back.without_order} without an order${lost}`
        this.#hold(reason)
      },
      noRecords: () =>
        log.warn(
          { event: 'no_signer_records' },
          'the signer is of an earlier release and keeps no records: what the database loses in a fail-over stays lost',
        ),
      fewer: (last, compared) =>
        log.warn(
          { event: 'signer_records_fewer', last, compared },
          'the signer has fewer records than were compared: it lost power, or its files are of an earlier day',
        ),
      gap: (from, to) =>
        log.error({ event: 'signer_records_gone', from, to }, 'the signer has removed records that were not compared'),
      looked: async () => {
        const others = this.#parts.use.takeAlarm()
        if (others !== undefined) this.#raise(`${others}; ${PART_THEM}`, SHARED, {})
        // Its certificates are missing here all the time: that is this one alarm.
        if (this.#parts.use.isShared) this.#held = []
        const isLong = performance.now() - this.#heldSince > MOST_HELD_MS
        if (this.#parts.use.isAlone || (isLong && !this.#parts.use.isCopied)) await this.reportHeld()
      },
      damaged: (found) => this.#raise(reasonOfDamage(found), 'records of the signer are damaged', { damaged: found }),
    }
  }

  #hold(reason: string): void {
    this.#parts.use.doubt()
    this.#held.push(reason)
  }

  /** One alarm for certificates, revocations and decisions. */
  async reportHeld(): Promise<void> {
    // The next round reports decisions that cannot be read now.
    const minAgeMs = this.#held.length > 0 ? 0 : OTHERS_FIRST_MS
    const decisions = await this.#parts.takeUntold(minAgeMs).catch(() => [])
    this.#heldSince = performance.now()
    const held = this.#held.splice(0)
    if (held.length + decisions.length === 0) return
    const { message, reason, lines } = storyOf({
      from: decisions.find(({ since }) => since !== null)?.since ?? undefined,
      to: new Date(),
      decisions,
      back: held.length > 0 ? held.join('; ') : undefined,
    })
    this.#raise(reason, message, { code: 'database_behind' }, lines)
  }

  #raise(reason: string, message: string, facts: object, lines: readonly string[] = []): void {
    raiseAlarm(this.#parts, 'database', { message, reason, ...(lines.length > 0 && { lines }) }, facts)
  }
}

/** The signer knows where its files are. */
const DAMAGED = 'say which with: chancery-signer audit verify FILE (docs/operations/signer.md#damaged-records)'

function reasonOfDamage(found: RecordDamage): string {
  const streams = Object.entries(found).filter(([, { lines }]) => lines > 0)
  const told = streams.map(([stream, { lines, first }]) => `${plural(lines, 'line')} of ${stream}, the first ${first}`)
  return `${told.join('; ')}; ${DAMAGED}`
}

const countsOf = ({ certificates, revocations }: { certificates: number; revocations: number }) =>
  `${plural(certificates, 'certificate')} and ${plural(revocations, 'revocation')}`
