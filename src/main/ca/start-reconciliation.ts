/** The comparison of the database with the signer in the supervisor: its parts, and what is told of it. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { CaBackend } from '../../ca/backend.ts'
import type { RecordDamage, SignerRecords } from '../../ca/signer-records.ts'
import type { Config } from '../../config/schema.ts'
import type { CheckStatus } from '../../domain/health.ts'
import { storyOf } from '../../domain/lost-decisions.ts'
import { PART_THEM, SHARED } from '../../domain/signer-use.ts'
import type { EventWriter } from '../../events/event-writer.ts'
import { beginAtZero, type Metrics } from '../../ops/metrics.ts'
import type { Issuance } from '../../services/issuance.ts'
import { Reconciliation, type ReconciliationEvents } from '../../services/reconcile/reconciliation.ts'
import { Restoration, type RestorationEvents } from '../../services/reconcile/restoration.ts'
import { SignerComparison } from '../../services/reconcile/signer-comparison.ts'
import type { SignerUseWatch } from '../../services/reconcile/signer-use-watch.ts'
import { plural } from '../../shared/lib/plural.ts'
import { slowNow } from '../../store/clock-store.ts'
import type { Database } from '../../store/database.ts'
import { createDecisionStore, type LostDecision } from '../../store/decision-store.ts'
import { restorationStore } from '../../store/restoration-store.ts'
import type { AdminThread } from '../admin/start-admin.ts'
import type { ReconciledFacts } from '../messages.ts'
import type { Stores } from '../stores.ts'
import { announceRegularly, watchSignerUse } from './announce-database.ts'

export interface ReconciliationPart {
  reconciliation: Reconciliation
  /** `error` while the database lacks a record, or another database uses the signer. */
  status(): CheckStatus
  /** Whether a copy of the database uses the signer. */
  isCopied(): boolean
  stop(): Promise<void>
  /** The admin thread starts later, and has the key of the audit log. */
  tellAudit(admin: Pick<AdminThread, 'noteReconciled'>): void
}

interface Parts {
  config: Config
  db: Database
  stores: Pick<Stores, 'issuance' | 'crls' | 'marks'>
  issuance: Pick<Issuance, 'saveIssuer'>
  ca: Pick<CaBackend, 'issuers'>
  metrics: Metrics
  log: Logger
  eventWriter: Pick<EventWriter, 'write'>
  isStopping(): boolean
}

export function startReconciliation(records: SignerRecords, parts: Parts): ReconciliationPart {
  const { config, db, stores, issuance, ca, isStopping } = parts
  const use = watchSignerUse(records, parts)
  const { takeUntold } = createDecisionStore(db)
  const report = new Report({ ...parts, use, takeUntold })
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
  const announcements = announceRegularly(use, parts.log)
  return {
    reconciliation,
    isCopied: () => use.isCopied,
    status: () => (reconciliation.isBehind || use.isShared ? 'error' : 'ok'),
    tellAudit: (admin) => report.tellAudit(admin),
    async stop() {
      await announcements.stop()
      await report.tellHeld()
    },
  }
}

const ENTRY_AGAIN_MS = 5_000
/** The story is told after this time even if the signer never settles who else is there. */
const MOST_HELD_MS = 120_000
/** Serial numbers in an alarm; `chancery reconcile` has all. */
const MOST_TOLD = 10
const NOTHING: ReconciledFacts = { certificates: 0, without_order: 0, revocations: 0, given_up: 0 }

type ReportParts = Pick<Parts, 'metrics' | 'log' | 'eventWriter' | 'isStopping'> & {
  use: Pick<SignerUseWatch, 'isShared' | 'isCopied' | 'isAlone' | 'doubt' | 'takeAlarm'>
  /** Decisions that the database lacked, each once. */
  takeUntold(): Promise<readonly LostDecision[]>
}

/** Counts what comes back until all of it is there; then come one alarm and one entry of the audit log. */
export class Report {
  readonly #parts: ReportParts
  #back = { ...NOTHING }
  #admin: Pick<AdminThread, 'noteReconciled'> | undefined
  #untold: ReconciledFacts[] = []
  /** Reasons of alarms that wait until it is known whether another database made what was lacking. */
  #held: string[] = []
  /** When the story was told last, by `performance.now()`. */
  #heldSince = performance.now()
  /** Serial numbers of what does not come back. */
  #lost: string[] = []

  constructor(parts: ReportParts) {
    this.#parts = parts
    beginAtZero(parts.metrics.reconciled, { kind: 'certificate' }, { kind: 'revocation' })
  }

  tellAudit(admin: Pick<AdminThread, 'noteReconciled'>): void {
    this.#admin = admin
    void this.#leaveEntries()
  }

  /** Repeats each entry until it is written: the admin thread may still start, and the database may hang. */
  async #leaveEntries(): Promise<void> {
    const { isStopping } = this.#parts
    while (this.#admin && this.#untold[0] && !isStopping())
      if (await this.#admin.noteReconciled(this.#untold[0])) this.#untold.shift()
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

  /** Tells each serial number once: a comparison from the beginning finds it again. */
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
        if (this.#untold.push(back) === 1) void this.#leaveEntries()
        const lost =
          back.given_up > 0
            ? `; ${plural(back.given_up, 'certificate')} did not come back, the log says why: ${this.#lost.splice(0).slice(0, MOST_TOLD).join(', ')}`
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
        // Its certificates lack here all the time: that is this one alarm.
        if (this.#parts.use.isShared) this.#held = []
        const isLong = performance.now() - this.#heldSince > MOST_HELD_MS
        if (this.#parts.use.isAlone || (isLong && !this.#parts.use.isCopied)) await this.tellHeld()
      },
      damaged: (found) => this.#raise(reasonOfDamage(found), 'records of the signer are damaged', { damaged: found }),
    }
  }

  #hold(reason: string): void {
    this.#parts.use.doubt()
    this.#held.push(reason)
  }

  /** One alarm for certificates, revocations and decisions. */
  async tellHeld(): Promise<void> {
    // What cannot be read now is told by the next round.
    const decisions = await this.#parts.takeUntold().catch(() => [])
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
    const { metrics, log, eventWriter } = this.#parts
    metrics.alarms.inc()
    log.fatal({ event: 'alarm', ...facts, reason }, message)
    const data = { message, reason, ...(lines.length > 0 && { lines }) }
    eventWriter.write({ kind: 'alarm', subject: 'database', accountId: undefined, data })
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
