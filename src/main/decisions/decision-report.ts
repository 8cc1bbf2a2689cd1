/** What log, metrics and alarms say of comparisons of decisions. */

import type { ComparedDecisions } from '../../admin/decisions/compare-decisions.ts'
import { type Story, storyOf } from '../../domain/lost-decisions.ts'
import { lifeLog } from '../../ops/logging.ts'
import { plural } from '../../shared/lib/plural.ts'
import { createDecisionStore } from '../../store/decision-store.ts'
import type { StartContext } from '../start-context.ts'
import type { DatabasePart } from '../start-database.ts'

const REMIND_MS = 10_000

export class DecisionReport {
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
    const decisions = isWhole ? await createDecisionStore(this.#database.db).takeUntold() : []
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
    const { log, metrics } = this.#context
    metrics.alarms.inc()
    log.fatal({ event: 'alarm', reason }, message)
    const data = { message, reason, ...(lines.length > 0 && { lines }) }
    this.#database.eventWriter.write({ kind: 'alarm', subject: 'database', accountId: undefined, data })
  }
}
