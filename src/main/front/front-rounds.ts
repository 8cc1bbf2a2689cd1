/**
 * The rounds of a front thread: its load for the overload control, its pool for the instance, the activity of accounts, and
 * its nonces.
 */

import type { Logger } from 'pino'
import type { HttpServer } from '../../http/http-message.ts'
import { TICK_MS } from '../../overload/overload.ts'
import type { OverloadControl } from '../../overload/overload-control.ts'
import { startLoop } from '../../runtime/loop.ts'
import { AccountActivity } from '../../services/account-cache.ts'
import type { SharedFlags } from '../../services/shared-state.ts'
import { NonceAudit, openSharedNonces } from '../../services/stored-nonces.ts'
import { nonceLifetimeSeconds } from '../../settings/server-settings.ts'
import { createNonces, type Nonces, openReplayWindow } from '../../shared/protocol/nonce.ts'
import { recordActivity } from '../../store/account-activity-store.ts'
import { type Database, isUnavailable } from '../../store/database.ts'
import { createNonceAuditStore, createNonceStore } from '../../store/nonce-store.ts'
import { diskTroubleOf } from '../../store/sqlstate.ts'
import type { FrontThreadData } from '../messages.ts'
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

/** A lost epoch stays unnoticed for this long. */
const REFRESH_MS = 500
/** The record of used nonces may be this far behind. */
const AUDIT_MS = 500

interface NonceParts {
  config: FrontThreadData['config']
  memory: FrontThreadData['nonce']
  db: Database
  log: Logger
  parts: Parts
}

export async function openThreadNonces(options: NonceParts): Promise<Nonces> {
  const source = await openSource(options)
  return options.config.nonce.audit_consumed ? withAudit(source, options) : source
}

async function openSource({ config, memory, db, log, parts }: NonceParts): Promise<Nonces> {
  const expirySeconds = nonceLifetimeSeconds(config)
  const { key, epochMs, window } = memory
  if (config.nonce.store === 'memory') return createNonces({ key, epochMs, expirySeconds }, openReplayWindow(window))
  const nonces = await openSharedNonces(createNonceStore(db), expirySeconds)
  const loop = startLoop({
    name: 'nonce epochs',
    intervalMs: REFRESH_MS,
    round: nonces.refresh,
    onError: (_, error) => log.debug({ err: error }, 'nonce epochs could not be read'),
  })
  parts.add('nonce epochs', loop, (one) => one.stop())
  return nonces
}

function withAudit(nonces: Nonces, { db, log, parts }: NonceParts): Nonces {
  const audit = new NonceAudit(createNonceAuditStore(db), (count) =>
    log.warn({ count }, 'used nonces are not recorded: the database was away for too long'),
  )
  const onError = (error: unknown) => log.warn({ err: error }, 'used nonces could not be recorded')
  const loop = startLoop({
    name: 'nonce audit',
    intervalMs: AUDIT_MS,
    round: () => audit.write(),
    onError: (_, error) => onError(error),
  })
  parts.add('nonce audit', loop, async (one) => {
    await one.stop()
    await audit.write().catch(onError)
  })
  return audit.noting(nonces)
}
