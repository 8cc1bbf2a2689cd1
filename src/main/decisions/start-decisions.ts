/**
 * Decisions in the supervisor: they are recorded for all threads, and the database is compared with the records at the start,
 * after each fail-over and once a minute (docs/decisions/decisions-outlive-the-database.md).
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { AuditLog } from '../../admin/audit/audit-log.ts'
import { type ComparedDecisions, compareDecisions } from '../../admin/decisions/compare-decisions.ts'
import type { CaBackend } from '../../ca/backend.ts'
import { hasSigner } from '../../config/backends.ts'
import type { Decision } from '../../domain/decision.ts'
import { type Story, storyOf } from '../../domain/lost-decisions.ts'
import { lifeLog } from '../../ops/logging.ts'
import { startLoop } from '../../runtime/loop.ts'
import { DecisionFile } from '../../services/decisions/decision-file.ts'
import { DecisionRecorder } from '../../services/decisions/decision-recorder.ts'
import { auditKeyOf } from '../../settings/admin-settings.ts'
import { databaseSettings } from '../../settings/server-settings.ts'
import { decisionsFile } from '../../settings/signer-settings.ts'
import { plural } from '../../shared/lib/plural.ts'
import { createDecisionStore } from '../../store/decision-store.ts'
import { readIncarnation } from '../../store/incarnation.ts'
import { openCheckedDatabase } from '../../store/slonik.ts'
import type { StartContext } from '../start-context.ts'
import { type DatabasePart, StartAbandoned } from '../start-database.ts'

export interface DecisionsPart {
  /** @returns why they are in the database alone; undefined when they are in a second place, too */
  note(decisions: readonly Decision[]): Promise<string | undefined>
  /** Regular comparisons rest while this says so: another database records its decisions at the same signer. */
  restWhile(isShared: () => boolean): void
}

const LOOK_MS = 1_000
const REGULARLY_MS = 60_000
const REMIND_MS = 10_000

/** Resolves when the database was compared; without an answer of the signer, unless it is another one than before. */
export async function startDecisions(
  context: StartContext,
  database: DatabasePart,
  ca: Pick<CaBackend, 'records'>,
  stopping: AbortSignal,
): Promise<DecisionsPart> {
  const { teardown, log } = context
  const keeper = await DecisionKeeper.create(context, database, ca)
  await keeper.begin(stopping)
  database.gate.isOn = true
  const loop = startLoop({
    name: 'decisions',
    intervalMs: LOOK_MS,
    round: () => keeper.round(),
    onError: (_, error) => log.debug({ err: error }, 'decisions could not be compared'),
  })
  teardown.add(() => loop.stop())
  return keeper
}

class DecisionKeeper implements DecisionsPart {
  readonly #context: Pick<StartContext, 'config' | 'log' | 'metrics' | 'now'>
  readonly #database: DatabasePart
  readonly #places: { records: CaBackend['records']; file: DecisionFile | undefined }
  readonly #recorder: DecisionRecorder | undefined
  readonly #identity: Awaited<ReturnType<ReturnType<typeof createDecisionStore>['identity']>>
  /** Which database was compared by this instance. */
  #incarnation: string | undefined
  /** By `performance.now()`. */
  #comparedAt = Number.NEGATIVE_INFINITY
  #said: { reason: string; at: number } | undefined
  #unreadable = 0
  #isWaiting = false
  #isShared = () => false

  static async create(
    context: StartContext,
    database: DatabasePart,
    ca: Pick<CaBackend, 'records'>,
  ): Promise<DecisionKeeper> {
    return new DecisionKeeper(context, database, ca, await createDecisionStore(database.db).identity())
  }

  private constructor(
    context: StartContext,
    database: DatabasePart,
    ca: Pick<CaBackend, 'records'>,
    identity: { id: string; key: Buffer },
  ) {
    const { config, log } = context
    this.#context = context
    this.#database = database
    this.#identity = identity
    const path = decisionsFile(config)
    const records = hasSigner(config) ? ca.records : undefined
    const file = path === undefined ? undefined : new DecisionFile(path)
    this.#places = { records, file }
    if (records || file) {
      const onFile = (reason: string) =>
        log.warn({ event: 'decisions_in_file', reason }, 'the signer did not take decisions; they are in the file')
      this.#recorder = new DecisionRecorder({ identity, records, file, requester: 'chancery', onFile })
    } else
      log.warn(
        { event: 'decisions_unrecorded' },
        'decisions are in the database alone: no certificate is signed here, and database.decisions_file is not set',
      )
  }

  async note(decisions: readonly Decision[]): Promise<string | undefined> {
    return this.#recorder?.note(decisions).then(
      () => undefined,
      (error: Error) => error.message,
    )
  }

  restWhile(isShared: () => boolean): void {
    this.#isShared = isShared
  }

  /** @throws StartAbandoned */
  async begin(stopping: AbortSignal): Promise<void> {
    const { log } = this.#context
    for (;;) {
      try {
        if (await this.#compare()) return
      } catch (error) {
        const { incarnation, compared } = await readIncarnation(this.#database.db)
        const isKnown = compared === null || compared === incarnation
        this.#say(`decisions cannot be compared: ${(error as Error).message}`, isKnown ? log : lifeLog(log))
        if (isKnown) return
      }
      // It rejects only when the service stops, which the next line asks.
      await sleep(LOOK_MS, undefined, { signal: stopping }).catch(() => undefined)
      if (stopping.aborted) throw new StartAbandoned()
    }
  }

  async round(): Promise<void> {
    if (await this.#isDue()) await this.#compare()
  }

  /** A session of this pool does not begin in a database that was not compared. */
  async #isDue(): Promise<boolean> {
    if (performance.now() - this.#comparedAt >= REGULARLY_MS && !this.#isShared()) return true
    try {
      return (await readIncarnation(this.#database.db)).incarnation !== this.#incarnation
    } catch {
      return true
    }
  }

  /** @returns false while an operator has to bring back what lacks. @throws errors of database, signer and file */
  async #compare(): Promise<boolean> {
    const { config } = this.#context
    const db = await openCheckedDatabase(databaseSettings(config, 1))
    let found: ComparedDecisions
    try {
      const audit = new AuditLog(db, auditKeyOf(config))
      const parts = { db, audit, identity: this.#identity, ...this.#places }
      found = await compareDecisions(parts, config.database.reconcile === 'automatic' ? 'restore' : 'wait')
    } finally {
      await db.end()
    }
    this.#tellUnreadable(found.unreadable)
    if (!found.isDone) {
      this.#tellWait(found.lacking.length)
      return false
    }
    this.#isWaiting = false
    this.#incarnation = found.incarnation
    this.#comparedAt = performance.now()
    this.#said = undefined
    if (found.dealtWith.length > 0) this.#logDealtWith(found)
    if (!this.#places.records) await this.#tellLost()
    return true
  }

  /** Each new reason, then every ten seconds. */
  #say(reason: string, log: Logger = lifeLog(this.#context.log)): void {
    const now = performance.now()
    if (reason === this.#said?.reason && now - this.#said.at < REMIND_MS) return
    this.#said = { reason, at: now }
    log.error({ event: 'decisions_not_compared', reason }, 'nobody works in the database until it is compared')
  }

  /** In the log and the metrics alone: nobody can write an event meanwhile. */
  #tellWait(count: number): void {
    const { log, metrics } = this.#context
    const reason = `${plural(count, 'decision')} ${count === 1 ? 'is' : 'are'} to be brought back with: chancery reconcile`
    this.#say(reason)
    if (this.#isWaiting) return
    this.#isWaiting = true
    metrics.alarms.inc()
    log.fatal({ event: 'alarm', code: 'database_behind', reason }, 'the database was behind its signer')
  }

  #logDealtWith({ dealtWith }: ComparedDecisions): void {
    const { log } = this.#context
    for (const { decision, outcome, failure } of dealtWith) {
      const { id, at, act, by } = decision
      const facts = { event: 'decision_dealt_with', decision: id, at, act, by, outcome, failure }
      log[failure === undefined ? 'warn' : 'error'](facts, 'the database lacked a decision')
    }
  }

  #tellUnreadable(count: number): void {
    const isMore = count > this.#unreadable
    this.#unreadable = count
    const reason = `${count} of them are damaged, gone or of a later release; what they say is not compared`
    if (isMore) this.#raise({ message: 'records of decisions cannot be read', reason, lines: [] })
  }

  /** Where a signer is, the story waits for what comes back from it (src/main/ca/start-reconciliation.ts). */
  async #tellLost(): Promise<void> {
    const decisions = await createDecisionStore(this.#database.db).takeUntold()
    if (decisions.length === 0) return
    const from = decisions.find(({ since }) => since !== null)?.since ?? undefined
    this.#raise(storyOf({ from, to: new Date(), decisions, back: undefined }))
  }

  #raise({ message, reason, lines }: Story): void {
    const { log, metrics } = this.#context
    metrics.alarms.inc()
    log.fatal({ event: 'alarm', reason }, message)
    const data = { message, reason, ...(lines.length > 0 && { lines }) }
    this.#database.eventWriter.write({ kind: 'alarm', subject: 'database', accountId: undefined, data })
  }
}
