/**
 * Decisions in the supervisor: they are recorded for all threads, and the database is compared with the records at the start,
 * after each fail-over and once a minute (docs/decisions/decisions-outlive-the-database.md).
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { AuditLog } from '../admin/audit/audit-log.ts'
import { type ComparedDecisions, compareDecisions } from '../admin/decisions/compare-decisions.ts'
import type { CaBackend } from '../ca/backend.ts'
import { hasSigner } from '../config/backends.ts'
import type { DatabaseIdentity, Decision } from '../domain/decision.ts'
import { type Story, storyOf } from '../domain/lost-decisions.ts'
import { lifeLog } from '../ops/logging.ts'
import { startLoop } from '../runtime/loop.ts'
import { DecisionFile } from '../services/decisions/decision-file.ts'
import { DecisionRecorder } from '../services/decisions/decision-recorder.ts'
import { auditKeyOf } from '../settings/admin-settings.ts'
import { databaseSettings } from '../settings/server-settings.ts'
import { decisionsFile } from '../settings/signer-settings.ts'
import { plural } from '../shared/lib/plural.ts'
import { createDecisionStore } from '../store/decision-store.ts'
import { readIncarnation } from '../store/incarnation.ts'
import { isBusy, openCheckedDatabase } from '../store/slonik.ts'
import { raiseAlarm } from './service-events.ts'
import type { StartContext } from './start-context.ts'
import { type DatabasePart, StartAbandoned } from './start-database.ts'

export interface DecisionsPart {
  /** @returns why they are in the database alone; undefined when they are in a second place, too */
  note(decisions: readonly Decision[]): Promise<string | undefined>
  /** The database that was compared last. */
  readonly incarnation: string | undefined
  /** Regular comparisons rest while this says so: a copy of the database records its decisions at the same signer. */
  restWhile(isCopied: () => boolean): void
}

const LOOK_MS = 1_000
const REGULARLY_MS = 60_000
/** To revoke a credential of many accounts takes minutes, and must end although nobody can work meanwhile. */
const STATEMENT_TIMEOUT_MS = 3_600_000
const AGAIN_MS = 10_000

/** Waits until the database was compared. While the signer is away, the database that was compared last is enough. */
export async function startDecisions(
  context: StartContext,
  database: DatabasePart,
  ca: Pick<CaBackend, 'records'>,
  stopping: AbortSignal,
): Promise<DecisionsPart> {
  const identity = await createDecisionStore(database.db).identity()
  const keeper = new DecisionKeeper(context, database, ca, identity)
  await keeper.begin(stopping)
  database.gate.isOn = true
  const loop = startLoop({
    name: 'decisions',
    intervalMs: LOOK_MS,
    round: () => keeper.round(),
    // A round reports its failures itself.
    onError: () => undefined,
  })
  context.parts.add('comparisons of decisions', loop, (one) => one.stop())
  return keeper
}

class DecisionKeeper implements DecisionsPart {
  readonly #context: Pick<StartContext, 'config'>
  readonly #database: DatabasePart
  readonly #places: { records: CaBackend['records']; file: DecisionFile }
  readonly #recorder: DecisionRecorder
  readonly #identity: DatabaseIdentity
  readonly #report: DecisionReport
  /** The database that this instance has compared. */
  #incarnation: string | undefined
  /** The time of the last comparison, by `performance.now()`. */
  #comparedAt = Number.NEGATIVE_INFINITY
  /** The time when another database was found, by `performance.now()`. */
  #changedAt = Number.NEGATIVE_INFINITY
  /** The start of the compared database's server. */
  #server: string | undefined
  #isCopied = () => false

  constructor(
    context: StartContext,
    database: DatabasePart,
    ca: Pick<CaBackend, 'records'>,
    identity: DatabaseIdentity,
  ) {
    const { config, log } = context
    this.#context = context
    this.#database = database
    this.#identity = identity
    this.#report = new DecisionReport(context, database)
    const records = hasSigner(config) ? ca.records : undefined
    const file = new DecisionFile(decisionsFile(config))
    this.#places = { records, file }
    this.#recorder = new DecisionRecorder({
      identity,
      incarnation: () => this.#incarnation,
      records,
      file,
      requester: 'chancery',
      onFile: (reason) =>
        log.warn({ event: 'decisions_in_file', reason }, 'the signer did not take decisions; they are in the file'),
      onDropped: (count) =>
        log.error(
          { event: 'decisions_dropped', count },
          'decisions are in the database alone: too many could not be placed',
        ),
    })
  }

  async note(decisions: readonly Decision[]): Promise<string | undefined> {
    const began = performance.now()
    const reason = await this.#recorder.note(decisions).then(
      () => undefined,
      (error: Error) => error.message,
    )
    // A fail-over came between the commit and the record.
    if (this.#changedAt > began) this.#comparedAt = Number.NEGATIVE_INFINITY
    return reason
  }

  get incarnation(): string | undefined {
    return this.#incarnation
  }

  restWhile(isCopied: () => boolean): void {
    this.#isCopied = isCopied
  }

  /** @throws StartAbandoned */
  async begin(stopping: AbortSignal): Promise<void> {
    for (;;) {
      try {
        if (await this.#compare()) return
      } catch (error) {
        const now = await readIncarnation(this.#database.db).catch(() => undefined)
        const isKnown = now !== undefined && (now.compared === null || now.compared === now.incarnation)
        this.#report.isOpen = isKnown
        this.#report.say((error as Error).message)
        if (isKnown) {
          ;[this.#incarnation, this.#server] = [now.incarnation, now.server]
          this.#comparedAt = performance.now() - REGULARLY_MS + AGAIN_MS
          return
        }
      }
      // It rejects only when the service stops, which the next line asks.
      await sleep(LOOK_MS, undefined, { signal: stopping }).catch(() => undefined)
      if (stopping.aborted) throw new StartAbandoned()
    }
  }

  async round(): Promise<void> {
    // The next decision reports the failure.
    await this.#recorder.placeRest().catch(() => undefined)
    if (!(await this.#isDue())) return
    try {
      await this.#compare()
    } catch (error) {
      if (this.#report.isOpen) this.#comparedAt = performance.now() - REGULARLY_MS + AGAIN_MS
      if (!isBusy(error)) this.#report.say((error as Error).message)
    }
  }

  /** Sessions of this pool begin only in a compared database, so an error here also means: compare. */
  async #isDue(): Promise<boolean> {
    try {
      const { incarnation, server } = await readIncarnation(this.#database.db)
      // A snapshot of the same machine has the same incarnation, and another start.
      this.#report.isOpen = true
      if (incarnation !== this.#incarnation || server !== this.#server) return true
      return performance.now() - this.#comparedAt >= REGULARLY_MS && !this.#isCopied()
    } catch {
      this.#report.isOpen = false
      return true
    }
  }

  /** @returns false while an operator has to bring back what is missing. @throws errors of database, signer and file */
  async #compare(): Promise<boolean> {
    const { config } = this.#context
    const db = await openCheckedDatabase({ ...databaseSettings(config, 1), statementTimeoutMs: STATEMENT_TIMEOUT_MS })
    let found: ComparedDecisions
    try {
      const audit = new AuditLog(db, auditKeyOf(config))
      const parts = { db, audit, identity: this.#identity, ...this.#places }
      found = await compareDecisions(parts, config.database.reconcile === 'automatic' ? 'restore' : 'wait')
    } finally {
      await db.end()
    }
    this.#report.unreadable(found.unreadable)
    if (!found.isDone) {
      this.#comparedAt = performance.now()
      if (found.isOpen) [this.#incarnation, this.#server] = [found.incarnation, found.server]
      this.#report.waits(found)
      return found.isOpen
    }
    if (this.#incarnation !== found.incarnation) this.#changedAt = performance.now()
    this.#incarnation = found.incarnation
    this.#server = found.server
    this.#comparedAt = performance.now()
    await this.#report.done(found, { isWhole: !this.#places.records })
    return true
  }
}

const REMIND_MS = 10_000

/** It reports comparisons of decisions to log, metrics and alarms. */
class DecisionReport {
  readonly #context: Pick<StartContext, 'log' | 'metrics'>
  readonly #database: Pick<DatabasePart, 'db' | 'eventWriter'>
  /** Whether sessions of this instance begin. */
  isOpen = false
  #said: { reason: string; at: number } | undefined
  #unreadable = 0
  #isWaiting = false

  constructor(context: Pick<StartContext, 'log' | 'metrics'>, database: Pick<DatabasePart, 'db' | 'eventWriter'>) {
    this.#context = context
    this.#database = database
  }

  /** Why nothing is compared: each new reason; while nobody can work, every ten seconds. */
  say(reason: string): void {
    const log = this.isOpen ? this.#context.log : lifeLog(this.#context.log)
    const now = performance.now()
    if (reason === this.#said?.reason && (this.isOpen || now - this.#said.at < REMIND_MS)) return
    this.#said = { reason, at: now }
    const sentence = this.isOpen ? 'decisions are not compared' : 'nobody works in the database until it is compared'
    log.error({ event: 'decisions_not_compared', reason }, sentence)
  }

  /** An operator has to reconcile. In a closed database nobody can write an event: log and metrics say it. */
  waits({ missing: { length: count }, isOpen }: ComparedDecisions): void {
    const { log, metrics } = this.#context
    const reason = `${plural(count, 'decision')} ${count === 1 ? 'is' : 'are'} to be brought back with: chancery reconcile`
    this.isOpen = isOpen
    this.say(reason)
    if (this.#isWaiting) return
    this.#isWaiting = true
    const message = 'the database was behind its signer'
    if (isOpen) this.#raise({ message, reason, lines: [] })
    else {
      metrics.alarms.inc()
      log.fatal({ event: 'alarm', code: 'database_behind', reason }, message)
    }
  }

  /**
   * @param isWhole nothing else comes back; where a signer is, the story waits for its certificates
   *   (src/main/ca/start-reconciliation.ts)
   */
  async done({ dealtWith }: ComparedDecisions, { isWhole }: { isWhole: boolean }): Promise<void> {
    this.#isWaiting = false
    this.#said = undefined
    const { log } = this.#context
    for (const { decision, outcome, failure } of dealtWith) {
      const { id, at, act, by } = decision
      const facts = { event: 'decision_dealt_with', decision: id, at, act, by, outcome, failure }
      log[failure === undefined ? 'warn' : 'error'](facts, 'the database lacked a decision')
    }
    const decisions = isWhole ? await createDecisionStore(this.#database.db).takeUntold(0) : []
    if (decisions.length === 0) return
    const from = decisions.find(({ since }) => since !== null)?.since ?? undefined
    this.#raise(storyOf({ from, to: new Date(), decisions, back: undefined }))
  }

  unreadable(count: number): void {
    const isMore = count > this.#unreadable
    this.#unreadable = count
    const reason = `${count} of them are damaged, gone or of a later release; what they say is not compared`
    if (isMore) this.#raise({ message: 'records of decisions cannot be read', reason, lines: [] })
  }

  #raise({ message, reason, lines }: Story): void {
    const reporting = { ...this.#context, eventWriter: this.#database.eventWriter }
    raiseAlarm(reporting, 'database', { message, reason, ...(lines.length > 0 && { lines }) })
  }
}
