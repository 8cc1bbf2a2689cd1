/**
 * Decisions in the supervisor: they are recorded for all threads, and the database is compared with the records at the start,
 * after each fail-over and once a minute (docs/decisions/decisions-outlive-the-database.md).
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { AuditLog } from '../../admin/audit/audit-log.ts'
import { type ComparedDecisions, compareDecisions } from '../../admin/decisions/compare-decisions.ts'
import type { CaBackend } from '../../ca/backend.ts'
import { hasSigner } from '../../config/backends.ts'
import type { DatabaseIdentity, Decision } from '../../domain/decision.ts'
import { startLoop } from '../../runtime/loop.ts'
import { DecisionFile } from '../../services/decisions/decision-file.ts'
import { DecisionRecorder } from '../../services/decisions/decision-recorder.ts'
import { auditKeyOf } from '../../settings/admin-settings.ts'
import { databaseSettings } from '../../settings/server-settings.ts'
import { decisionsFile } from '../../settings/signer-settings.ts'
import { createDecisionStore } from '../../store/decision-store.ts'
import { readIncarnation } from '../../store/incarnation.ts'
import { isBusy, openCheckedDatabase } from '../../store/slonik.ts'
import type { StartContext } from '../start-context.ts'
import { type DatabasePart, StartAbandoned } from '../start-database.ts'
import { DecisionReport } from './decision-report.ts'

export interface DecisionsPart {
  /** @returns why they are in the database alone; undefined when they are in a second place, too */
  note(decisions: readonly Decision[]): Promise<string | undefined>
  /** Which database it is, as it was compared last. */
  readonly incarnation: string | undefined
  /** Regular comparisons rest while this says so: a copy of the database records its decisions at the same signer. */
  restWhile(isCopied: () => boolean): void
}

const LOOK_MS = 1_000
const REGULARLY_MS = 60_000
/** To revoke a credential of many accounts takes minutes, and is not given up while nobody can work. */
const STATEMENT_TIMEOUT_MS = 3_600_000
const AGAIN_MS = 10_000

/** Waits until the database was compared. While the signer is away, it goes on if this is the database compared last. */
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
    onError: () => undefined, // a round tells its failures itself
  })
  context.teardown.add(() => loop.stop())
  return keeper
}

class DecisionKeeper implements DecisionsPart {
  readonly #context: Pick<StartContext, 'config'>
  readonly #database: DatabasePart
  readonly #places: { records: CaBackend['records']; file: DecisionFile }
  readonly #recorder: DecisionRecorder
  readonly #identity: DatabaseIdentity
  readonly #report: DecisionReport
  /** Which database was compared by this instance. */
  #incarnation: string | undefined
  /** By `performance.now()`. */
  #comparedAt = Number.NEGATIVE_INFINITY
  /** When another database was found, by `performance.now()`. */
  #changedAt = Number.NEGATIVE_INFINITY
  /** When the server of the compared database was started. */
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
    await this.#recorder.placeRest().catch(() => undefined) // whoever decides next is told
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

  /** @returns false while an operator has to bring back what lacks. @throws errors of database, signer and file */
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
