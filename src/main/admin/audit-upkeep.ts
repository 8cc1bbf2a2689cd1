/**
 * The upkeep of the audit log in the admin thread: it watches the log's end and writes its head to the service's log.
 *
 * It also sums up failed logins, and lets retention cut the log.
 */

import type { Logger } from 'pino'
import { AuditLog, type RecordDecisions } from '../../admin/audit/audit-log.ts'
import { emergenciesAfter } from '../../admin/audit/audit-store.ts'
import { AuditWatch, type AuditWatchEvents, cutAuditLog } from '../../admin/audit/audit-watch.ts'
import { noteStrangers } from '../../admin/users/login-attempts.ts'
import { renderHead } from '../../domain/audit-chain.ts'
import type { Metrics } from '../../ops/metrics.ts'
import { type Loop, startLoop } from '../../runtime/loop.ts'
import { openSharedFlags, type SharedFlags } from '../../services/shared-state.ts'
import { requireAuditKey } from '../../settings/admin-settings.ts'
import { type DatabasePool, queriesOf } from '../../store/slonik.ts'
import type { AdminThreadData, ReconciledFacts, ReloadChanges } from '../messages.ts'
import { type Reporting, raiseAlarm } from '../service-events.ts'
import { createEventWriter } from '../stores.ts'

const LOOK_MS = 5_000
const HEAD_EVERY_MS = 60_000

/** @returns its parts; the event writer is closed before the database */
export function createAudit(
  { config, flags }: AdminThreadData,
  db: DatabasePool,
  { log, metrics }: { log: Logger; metrics: Metrics },
  record: RecordDecisions,
) {
  const eventWriter = createEventWriter(queriesOf(db), log, metrics)
  const key = requireAuditKey(config)
  const watch = new AuditWatch({ db, key, events: auditAlarm(openSharedFlags(flags), { log, metrics, eventWriter }) })
  return { key, watch, eventWriter, audit: new AuditLog(db, key, watch, record) }
}

/**
 * Log and events report it once; health and metrics show it until the log is whole again.
 * @param flags the supervisor reads them for its health
 */
function auditAlarm(flags: Pick<SharedFlags, 'noteAuditLog'>, reporting: Reporting): AuditWatchEvents {
  function show(isBroken: boolean): void {
    flags.noteAuditLog(isBroken)
    reporting.metrics.auditLogBroken.set(isBroken ? 1 : 0)
  }
  show(false)
  return {
    missing(fault) {
      show(true)
      raiseAlarm(reporting, 'audit_log', { message: 'the end of the audit log was cut or changed', reason: fault })
    },
    found(reason) {
      show(false)
      if (reason)
        reporting.log.warn({ event: 'audit_log_went_back', reason }, 'the audit log went back with its database')
      else reporting.log.warn({ event: 'audit_log_restored' }, 'the audit log has its end again')
    },
  }
}

interface AuditUpkeepOptions {
  db: DatabasePool
  key: Buffer
  audit: AuditLog
  watch: AuditWatch
  log: Logger
  metrics: Pick<Metrics, 'alarms'>
}

export class AuditUpkeep {
  readonly #options: AuditUpkeepOptions
  readonly #rounds: Loop
  /** `performance.now()` of the next line. */
  #lineAt = 0
  /** The place in the audit log up to which emergencies are reported. */
  #reportedUpTo: number | undefined

  constructor(options: AuditUpkeepOptions) {
    const { log } = options
    this.#options = options
    this.#rounds = startLoop({
      name: 'audit_head',
      intervalMs: LOOK_MS,
      round: () => this.#round(),
      onError: (_name, error) => log.warn({ err: error }, 'the head of the audit log cannot be read'),
    })
  }

  /** @returns the number of deleted entries */
  cut(before: Date): Promise<number> {
    return cutAuditLog(this.#options, before)
  }

  async noteReload({ applied, needRestart }: ReloadChanges): Promise<undefined> {
    const details = { signal: 'SIGHUP', applied, need_restart: needRestart }
    await this.#options.audit.record({ userId: undefined, ipAddress: undefined }, 'settings.reload', details)
  }

  async noteReconciled(facts: ReconciledFacts): Promise<undefined> {
    const nobody = { userId: undefined, ipAddress: undefined }
    await this.#options.audit.record(nobody, 'database.reconcile', { ...facts })
  }

  stop(): Promise<void> {
    return this.#rounds.stop()
  }

  /** The mail to the administrators comes from the entry itself; log and metrics are this instance's. */
  async #reportEmergencies(upTo: number): Promise<void> {
    const { db, log, metrics } = this.#options
    const entries = this.#reportedUpTo === undefined ? [] : await emergenciesAfter(db, this.#reportedUpTo)
    this.#reportedUpTo = Math.max(upTo, entries.at(-1)?.sequence ?? 0)
    for (const { details } of entries) {
      metrics.alarms.inc()
      log.fatal(
        { event: 'alarm', reason: details['reason'], operator: details['operator'] },
        `${details['summary']}: an act without the approval that it needs`,
      )
    }
  }

  async #round(): Promise<void> {
    const { audit, watch, log } = this.#options
    const head = await watch.look()
    await this.#reportEmergencies(head.sequence)
    if (performance.now() < this.#lineAt) return
    this.#lineAt = performance.now() + HEAD_EVERY_MS
    // An intruder can cut the tail of the table and move its head, but not the heads in the log.
    log.info({ event: 'audit_head', head: renderHead(head) }, 'head of the audit log')
    await noteStrangers(audit)
  }
}
