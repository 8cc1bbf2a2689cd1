/** The audit log of the admin thread, and the alarm that it is no longer whole: log, event, metric and health. */

import type { Logger } from 'pino'
import { AuditLog } from '../../admin/audit/audit-log.ts'
import { AuditWatch, type AuditWatchEvents } from '../../admin/audit/audit-watch.ts'
import type { EventWriter } from '../../events/event-writer.ts'
import type { Metrics } from '../../ops/metrics.ts'
import { requireAuditKey } from '../../settings/admin.ts'
import { type DatabasePool, queriesOf } from '../../store/slonik.ts'
import { createEventWriter } from '../event-writer.ts'
import type { AdminThreadData } from '../messages.ts'

/** @returns its parts; the event writer is closed before the database */
export function createAudit(
  { config, auditState }: AdminThreadData,
  db: DatabasePool,
  { log, metrics }: { log: Logger; metrics: Metrics },
) {
  const eventWriter = createEventWriter(queriesOf(db), log, metrics)
  const key = requireAuditKey(config)
  const watch = new AuditWatch({ db, key, events: auditAlarm(auditState, { log, metrics, eventWriter }) })
  return { key, watch, eventWriter, audit: new AuditLog(db, key, watch) }
}

/**
 * It is told once, and stands in health and metrics until the log is whole again.
 * @param state one Int32, which the supervisor reads for its health
 */
function auditAlarm(
  state: SharedArrayBuffer,
  { log, metrics, eventWriter }: { log: Logger; metrics: Metrics; eventWriter: Pick<EventWriter, 'write'> },
): AuditWatchEvents {
  function show(isBroken: 0 | 1): void {
    Atomics.store(new Int32Array(state), 0, isBroken)
    metrics.auditLogBroken.set(isBroken)
  }
  show(0)
  const message = 'the end of the audit log was cut or changed'
  return {
    missing(fault) {
      show(1)
      metrics.alarms.inc()
      log.fatal({ event: 'alarm', reason: fault }, message)
      eventWriter.write({ kind: 'alarm', subject: 'audit_log', accountId: undefined, data: { message, reason: fault } })
    },
    found() {
      show(0)
      log.warn({ event: 'audit_log_restored' }, 'the audit log has its end again')
    },
  }
}
