/** The supervisor's own actor: validation hand-over, CAA and MX checks, health and metrics for the front threads. */

import type { Logger } from 'pino'
import type { CaBackend } from '../ca/backend.ts'
import { pressureTier } from '../domain/pool-pressure.ts'
import { keysOf } from '../lib/keys.ts'
import type { CheckStatus, HealthReport } from '../ops/health.ts'
import { type Metrics, renderMetrics, takeSnapshot } from '../ops/metrics.ts'
import { type Actor, spawn } from '../runtime/actor.ts'
import type { SupervisedThread } from '../runtime/thread.ts'
import type { AskForCaa } from '../services/caa-freshness.ts'
import type { InstanceBoard } from '../services/instance-board.ts'
import type { AskForMailDomains } from '../services/mail-domains.ts'
import type { DispatcherLoad, ValidationDispatcher } from '../services/validation-dispatcher.ts'
import type { Database, Statement } from '../store/database.ts'
import type { FrontMessages, SupervisorMessages } from './messages.ts'

export interface SupervisorParts {
  log: Logger
  metrics: Metrics
  db: Database
  ca: CaBackend
  board: InstanceBoard
  dispatcher: ValidationDispatcher
  checkCaa: AskForCaa
  checkMailDomains: AskForMailDomains
  fronts(): readonly SupervisedThread<FrontMessages>[]
  workers(): HealthReport['checks']['workers']
  /** Undefined where no CRL is published. */
  crl(): HealthReport['checks']['crl']
  isStopping(): boolean
}

/** Messages from all fronts that may wait: two seconds of triggers at full load. */
const MAILBOX_LIMIT = 8192
const FRONT_DEADLINE_MS = 1_000
/** Probes older than this are run again by the next question; doc 1 wants a real signature, not one for each question. */
const PROBE_LIFE_MS = 3_000
const PROBE_TIMEOUT_MS = 2_000
const PING: Statement = { name: 'ping', text: 'SELECT 1' }

export function spawnSupervisor(parts: SupervisorParts): Actor<SupervisorMessages> {
  const { log, metrics, dispatcher } = parts
  const probe = createProbe(parts)
  const startedAt = Date.now()

  return spawn<SupervisorMessages>({
    name: 'supervisor',
    mailboxLimit: MAILBOX_LIMIT,
    concurrency: 64,
    restart: { initialDelayMs: 10, maxDelayMs: 1_000, maxRestarts: 100, windowMs: 60_000 },
    onFailure: ({ error }) => log.error({ err: error }, 'supervisor actor failed'),
    start: () => ({
      validate(requests) {
        // What does not fit stays claimed in the database, from where the challenge worker takes it when it is stale.
        for (const request of requests)
          if (!dispatcher.dispatch(request))
            log.warn({ authorizationId: request.authorizationId }, 'the validation queue is full')
        return undefined
      },
      caa: parts.checkCaa,
      mailDomains: parts.checkMailDomains,
      health: probe,
      async metrics() {
        metrics.uptime.set(Math.floor((Date.now() - startedAt) / 1000))
        reportLoad(dispatcher.load(), metrics)
        metrics.maintenance.set(parts.board.isOn('maintenance') ? 1 : 0)
        metrics.signingStopped.set(parts.board.isOn('stopSigning') ? 1 : 0)
        metrics.threads.set(parts.fronts().filter(({ status }) => status === 'running').length)
        const answers = parts.fronts().map(({ ref }) => ref.ask('metrics', undefined, FRONT_DEADLINE_MS))
        return renderMetrics([await takeSnapshot(metrics), ...answered(await Promise.allSettled(answers))])
      },
    }),
  })
}

function reportLoad({ known, running, waiting, oldestWaitMs }: DispatcherLoad, metrics: Metrics): void {
  metrics.validationsKnown.set(known)
  metrics.validationsRunning.set(running)
  for (const reason of keysOf(waiting)) metrics.validationsWaiting.set({ for: reason }, waiting[reason])
  metrics.validationOldestWait.set(oldestWaitMs / 1000)
}

/** One run at a time serves everybody who asks meanwhile, and for a few seconds after; not across a throw of the stop switch. */
function createProbe(parts: SupervisorParts): () => Promise<HealthReport> {
  let last: { at: number; stopped: boolean; report: Promise<HealthReport> } | undefined
  return async () => {
    const now = performance.now()
    const stopped = parts.board.isOn('stopSigning')
    if (!last || last.stopped !== stopped || now - last.at > PROBE_LIFE_MS)
      last = { at: now, stopped, report: probeOnce(parts) }
    return {
      ...(await last.report),
      maintenance_mode: parts.board.isOn('maintenance'),
      shutting_down: parts.isStopping(),
    }
  }
}

async function probeOnce(parts: SupervisorParts): Promise<HealthReport> {
  const { size, available, waiting, ...rest } = parts.board.pool()
  const isExhausted = pressureTier({ size, available, waiting, ...rest }) === 'exhausted'
  const pool = { size, available, waiting }
  const [database, signatures] = await Promise.all([
    isExhausted || isOk(withDeadline(parts.db.query(PING, []))),
    parts.board.isOn('stopSigning')
      ? ('stopped' as const)
      : checkOf(parts.ca.testSign({ timeoutMs: PROBE_TIMEOUT_MS })),
  ])
  // After the signature, which is what finds a token gone. A signer that does not answer has no tokens to show.
  const tokens = await parts.ca.tokenStates({ timeoutMs: PROBE_TIMEOUT_MS }).catch(() => [])
  return {
    checks: {
      database: isExhausted ? 'pool_exhausted' : { status: database ? 'ok' : 'error', pool },
      ca_backend: { status: signatures, ...(tokens.length > 0 && { tokens }) },
      ...withCrl(parts.crl()),
      workers: parts.workers(),
    },
    pool,
    maintenance_mode: parts.board.isOn('maintenance'),
    shutting_down: parts.isStopping(),
  }
}

function withCrl(crl: HealthReport['checks']['crl']): Pick<HealthReport['checks'], 'crl'> {
  return crl === undefined ? {} : { crl }
}

/** A thread that is just being replaced does not answer; its share is missing for that moment. */
function answered<T>(results: readonly PromiseSettledResult<T>[]): T[] {
  return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
}

async function checkOf(check: Promise<unknown>): Promise<CheckStatus> {
  return (await isOk(check)) ? 'ok' : 'error'
}

async function isOk(check: Promise<unknown>): Promise<boolean> {
  return check.then(
    () => true,
    () => false,
  )
}

async function withDeadline<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer in time')), PROBE_TIMEOUT_MS)
  })
  return Promise.race([work, deadline]).finally(() => clearTimeout(timer))
}
