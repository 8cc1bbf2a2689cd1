/**
 * The supervisor's service to the front threads, in two actors.
 *
 * One takes validations, CAA and MX checks; the other answers health and metrics. Frequent health
 * or metrics requests therefore cannot block validations.
 */

import type { Logger } from 'pino'
import type { CaBackend } from '../ca/backend.ts'
import type { HealthReport } from '../ops/health.ts'
import { type Metrics, renderMetrics, takeSnapshot } from '../ops/metrics.ts'
import { createThreadMetrics } from '../ops/thread-metrics.ts'
import { type ActorRef, spawn } from '../runtime/actor.ts'
import type { SupervisedThread } from '../runtime/thread.ts'
import type { AskForCaa } from '../services/caa-freshness.ts'
import type { InstanceBoard } from '../services/instance-board.ts'
import type { AskForMailDomains } from '../services/mail-domains.ts'
import type { DispatcherEvents, DispatcherLoad, ValidationDispatcher } from '../services/validation-dispatcher.ts'
import { keysOf } from '../shared/lib/keys.ts'
import { sharedWork } from '../shared/lib/shared-work.ts'
import type { Database } from '../store/database.ts'
import type { FrontMessages, SupervisorMessages } from './messages.ts'
import { createProbe, type Probe } from './probe.ts'

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
  /** Undefined when no CRL is published. */
  crl(): HealthReport['checks']['crl']
  isStopping(): boolean
}

/** Waiting messages from all fronts: two seconds of triggers at full load. */
const MAILBOX_LIMIT = 8192
const FRONT_DEADLINE_MS = 1_000
const RESTART = { initialDelayMs: 10, maxDelayMs: 1_000, maxRestarts: 100, windowMs: 60_000 }

/** Each front has at most one health and one metrics request open, for all its clients. */
const OPERATIONS_LIMIT = 256
/** Summing and rendering the metrics of all threads takes about 10 ms of this thread. */
const EXPOSITION_INTERVAL_MS = 1_000

type Operations = Pick<SupervisorMessages, 'health' | 'metrics'>
type Work = Omit<SupervisorMessages, keyof Operations>

export interface Supervisor extends ActorRef<SupervisorMessages> {
  stop(): void
}

export function spawnSupervisor(parts: SupervisorParts): Supervisor {
  const work = spawnWork(parts)
  const operations = spawnOperations(parts)
  const actorFor = (kind: keyof SupervisorMessages) =>
    (kind === 'health' || kind === 'metrics' ? operations : work) as unknown as ActorRef<SupervisorMessages>
  return {
    name: 'supervisor',
    tell: (kind, message) => actorFor(kind).tell(kind, message),
    ask: (kind, message, deadlineMs) => actorFor(kind).ask(kind, message, deadlineMs),
    stop() {
      work.stop()
      operations.stop()
    },
  }
}

function spawnWork(parts: SupervisorParts) {
  const { log, dispatcher } = parts
  return spawn<Work>({
    name: 'supervisor',
    mailboxLimit: MAILBOX_LIMIT,
    concurrency: 64,
    restart: RESTART,
    onFailure: ({ error }) => log.error({ err: error }, 'supervisor actor failed'),
    start: () => ({
      validate({ front, requests }) {
        for (const request of requests) {
          if (dispatcher.dispatch(request, front)) continue
          // The claim stays in the database; the challenge worker adopts it when it is stale.
          const { authorizationId } = request
          log.warn({ authorizationId }, 'the validation queue is full')
          parts.tellNews(front, { authorizationId })
        }
        return undefined
      },
      caa: parts.checkCaa,
      mailDomains: parts.checkMailDomains,
    }),
  })
}

function spawnOperations(parts: SupervisorParts) {
  const probe = createProbe(parts)
  const exposition = sharedWork(createExposition(parts, probe), {
    intervalMs: EXPOSITION_INTERVAL_MS,
    mostWaiting: OPERATIONS_LIMIT,
  })
  return spawn<Operations>({
    name: 'operations',
    mailboxLimit: OPERATIONS_LIMIT,
    concurrency: OPERATIONS_LIMIT,
    restart: RESTART,
    onFailure: ({ error }) => parts.log.error({ err: error }, 'operations actor failed'),
    start: () => ({ health: probe.health, metrics: exposition }),
  })
}

function createExposition(parts: SupervisorParts, probe: Probe): () => Promise<string> {
  const { metrics, dispatcher } = parts
  const threadMetrics = createThreadMetrics()
  const startedAt = Date.now()

  return async () => {
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
    // Removes issuers that have left the signer.
    metrics.issuerNotAfter.reset()
    for (const { id, notAfter } of parts.ca.issuers())
      metrics.issuerNotAfter.set({ issuer: id }, notAfter.getTime() / 1000)
    return renderMetrics([await takeSnapshot(metrics), ...(await threadMetrics(answered(await answers)))])
  }
}

function reportLoad({ known, running, waiting, oldestWaitMs }: DispatcherLoad, metrics: Metrics): void {
  metrics.validationsKnown.set(known)
  metrics.validationsRunning.set(running)
  for (const reason of keysOf(waiting)) metrics.validationsWaiting.set({ for: reason }, waiting[reason])
  metrics.validationOldestWait.set(oldestWaitMs / 1000)
}

/** A thread under replacement does not answer. */
function answered<T>(results: readonly PromiseSettledResult<T>[]): (T | undefined)[] {
  return results.map((result) => (result.status === 'fulfilled' ? result.value : undefined))
}
