/** Measures a front thread: its load for the overload control, its pool for the instance, the activity of accounts. */

import type { Logger } from 'pino'
import type { HttpServer } from '../../http/http-message.ts'
import { TICK_MS } from '../../overload/overload.ts'
import type { OverloadControl } from '../../overload/overload-control.ts'
import { startLoop } from '../../runtime/loop.ts'
import { AccountActivity } from '../../services/account-activity.ts'
import type { SharedFlags } from '../../services/shared-state.ts'
import { recordActivity } from '../../store/account-activity-store.ts'
import { type Database, isUnavailable } from '../../store/database.ts'
import { diskTroubleOf } from '../../store/sqlstate.ts'
import type { Parts } from '../parts.ts'

const POOL_REPORT_MS = 100

export function startTicks(overload: Pick<OverloadControl<unknown>, 'tick'>, servers: readonly HttpServer[]): void {
  const utilizationSinceTick = createUtilization()
  setInterval(() => {
    const utilization = utilizationSinceTick()
    const requests = sumOf(servers, ({ counters }) => counters.requests)
    const refusedConnections = sumOf(servers, ({ counters }) => counters.refusedConnections)
    overload.tick(performance.now(), { requests, refusedConnections, utilization })
  }, TICK_MS).unref()
}

export const sumOf = (servers: readonly HttpServer[], value: (server: HttpServer) => number): number =>
  servers.reduce((sum, server) => sum + value(server), 0)

/** Measures the share of time this thread was busy since the last call. */
function createUtilization(): () => number {
  let before = performance.eventLoopUtilization()
  return () => {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, before)
    before = now
    return utilization
  }
}

/**
 * Writes this thread's pool figures to the shared flags, at once and then several times a second.
 * Input is read first, or a thread that was blocked would report answers as outstanding.
 */
export function reportPoolTo(flags: SharedFlags, front: number, db: Database): void {
  const report = () => flags.reportPool(front, db.pressure())
  report()
  setInterval(() => setImmediate(report), POOL_REPORT_MS).unref()
}

const DISK_SENTENCES = { full: 'the disk of the database is full', failing: 'the database cannot use its disk' }

/** Tells the client what is wrong, and the probes what the statement has seen of the disk. */
export const databaseTroubleTo =
  (flags: Pick<SharedFlags, 'noteDisk'>) =>
  (error: unknown): string | undefined => {
    const disk = diskTroubleOf(error)
    if (disk) flags.noteDisk(disk)
    if (disk) return DISK_SENTENCES[disk]
    return isUnavailable(error) ? 'the database is not reachable' : undefined
  }

const ACTIVITY_MS = 30_000

/** Writes the activity of accounts that the thread has seen. */
export function startActivity(db: Database, log: Logger, parts: Parts): AccountActivity {
  const activity = new AccountActivity((seen) => recordActivity(db, seen))
  const onError = (error: unknown) => log.warn({ err: error }, 'the activity of accounts could not be recorded')
  const loop = startLoop({
    name: 'account activity',
    intervalMs: ACTIVITY_MS,
    round: () => activity.write(),
    onError: (_, error) => onError(error),
  })
  parts.add('account activity', loop, async (one) => {
    await one.stop()
    await activity.write().catch(onError)
  })
  return activity
}
