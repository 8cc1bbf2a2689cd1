/** The supervisor's own actor: validation hand-over, CAA and MX checks, health and metrics for the front threads. */

import type { Logger } from 'pino'
import type { CaBackend } from '../ca/backend.ts'
import type { HealthReport } from '../ops/health.ts'
import { type Metrics, renderMetrics, takeSnapshot } from '../ops/metrics.ts'
import { createThreadMetrics } from '../ops/thread-metrics.ts'
import { type Actor, spawn } from '../runtime/actor.ts'
import type { SupervisedThread } from '../runtime/thread.ts'
import type { AskForCaa } from '../services/caa-freshness.ts'
import type { InstanceBoard } from '../services/instance-board.ts'
import type { AskForMailDomains } from '../services/mail-domains.ts'
import type { DispatcherEvents, DispatcherLoad, ValidationDispatcher } from '../services/validation-dispatcher.ts'
import { keysOf } from '../shared/lib/keys.ts'
import type { Database } from '../store/database.ts'
import type { FrontMessages, SupervisorMessages } from './messages.ts'
import { createProbe } from './probe.ts'

export interface SupervisorParts {
  log: Logger
  metrics: Metrics
  db: Database
  ca: CaBackend
  board: InstanceBoard
  dispatcher: ValidationDispatcher
  tellNews: DispatcherEvents['news']
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

export function spawnSupervisor(parts: SupervisorParts): Actor<SupervisorMessages> {
  const { log, metrics, dispatcher } = parts
  const probe = createProbe(parts)
  const threadMetrics = createThreadMetrics()
  const startedAt = Date.now()

  return spawn<SupervisorMessages>({
    name: 'supervisor',
    mailboxLimit: MAILBOX_LIMIT,
    concurrency: 64,
    restart: { initialDelayMs: 10, maxDelayMs: 1_000, maxRestarts: 100, windowMs: 60_000 },
    onFailure: ({ error }) => log.error({ err: error }, 'supervisor actor failed'),
    start: () => ({
      validate({ front, requests }) {
        for (const request of requests) {
          if (dispatcher.dispatch(request, front)) continue
          // What is claimed stays so in the database, from where the challenge worker takes it when it is stale.
          const { authorizationId } = request
          log.warn({ authorizationId }, 'the validation queue is full')
          parts.tellNews(front, { authorizationId })
        }
        return undefined
      },
      caa: parts.checkCaa,
      mailDomains: parts.checkMailDomains,
      health: probe.health,
      async metrics() {
        const readiness = probe.readiness()
        metrics.uptime.set(Math.floor((Date.now() - startedAt) / 1000))
        reportLoad(dispatcher.load(), metrics)
        metrics.maintenance.set(parts.board.isOn('maintenance') ? 1 : 0)
        metrics.signingStopped.set(parts.board.isOn('stopSigning') ? 1 : 0)
        metrics.threads.set(parts.fronts().filter(({ status }) => status === 'running').length)
        const answers = Promise.allSettled(
          parts.fronts().map(({ ref }) => ref.ask('metrics', undefined, FRONT_DEADLINE_MS)),
        )
        const { isCaUp, isDatabaseUp, isReady } = await readiness
        metrics.caUp.set(isCaUp ? 1 : 0)
        metrics.databaseUp.set(isDatabaseUp ? 1 : 0)
        metrics.ready.set(isReady ? 1 : 0)
        // One that has left the signer leaves here, too.
        metrics.issuerNotAfter.reset()
        for (const { id, notAfter } of parts.ca.issuers())
          metrics.issuerNotAfter.set({ issuer: id }, notAfter.getTime() / 1000)
        return renderMetrics([await takeSnapshot(metrics), ...(await threadMetrics(answered(await answers)))])
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

/** A thread that is just being replaced does not answer. */
function answered<T>(results: readonly PromiseSettledResult<T>[]): (T | undefined)[] {
  return results.map((result) => (result.status === 'fulfilled' ? result.value : undefined))
}
