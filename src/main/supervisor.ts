/**
 * The supervisor's service to the front threads, in three actors.
 *
 * One takes validations, CAA and MX checks; the others answer health and metrics, and take the steps of issuances
 * from CSRs. Frequent requests of one kind therefore cannot block the others.
 */

import type { Logger } from 'pino'
import type { CaBackend } from '../ca/backend.ts'
import { publicNames } from '../config/backends.ts'
import type { AbuseSummary } from '../events/abuse-summary.ts'
import { type Metrics, renderMetrics, takeSnapshot } from '../ops/metrics.ts'
import { createThreadMetrics, reportProcess, reportThread, type ThreadMetrics } from '../ops/thread-metrics.ts'
import { type Actor, type ActorRef, type Handlers, type MessageTable, spawn } from '../runtime/actor.ts'
import type { SupervisedThread } from '../runtime/thread.ts'
import type { AskForCaa } from '../services/caa-freshness.ts'
import type { CsrIssuances } from '../services/csr-issuances.ts'
import type { AskForMailDomains } from '../services/registration.ts'
import type { SharedFlags } from '../services/shared-state.ts'
import type { DispatcherEvents, DispatcherLoad, ValidationDispatcher } from '../services/validation-dispatcher.ts'
import { sharedWork } from '../shared/lib/caching.ts'
import { keysOf } from '../shared/lib/encoding.ts'
import { within } from '../shared/lib/time-limit.ts'
import type { Database, PoolNumbers } from '../store/database.ts'
import { DISK_TROUBLES } from '../store/sqlstate.ts'
import type { AdminThread } from './admin/start-admin.ts'
import type { CsrBackends } from './ca/csr-backends.ts'
import type { Events } from './events/start-events.ts'
import type { FrontMessages, SupervisorMessages } from './messages.ts'
import { type BackendHealth, createProbe, type Probe, type ProbeParts } from './probe.ts'

export interface SupervisorParts extends Omit<ProbeParts, 'backends'> {
  log: Logger
  metrics: Metrics
  db: Database
  ca: CaBackend
  flags: SharedFlags
  backends: CsrBackends
  /** Name of the backend behind the signer; undefined when no certificate is signed here. */
  signer: string | undefined
  /** Undefined when the signer signs everything. */
  csrIssuances: CsrIssuances | undefined
  /** How long a front waits for an issuance from a CSR. */
  issueWithinMs: number
  dispatcher: ValidationDispatcher
  sendEnded: DispatcherEvents['ended']
  checkCaa: AskForCaa
  checkMailDomains: AskForMailDomains
  noteDecisions(decisions: SupervisorMessages['noteDecisions']['message']): Promise<string | undefined>
  /** Whether the database lacks what the signer has recorded. */
  isBehind(): boolean
  /** Undefined when the Admin API is off. */
  admin: AdminThread | undefined
  events: Pick<Events, 'thread'>
  refusals: AbuseSummary
  fronts(): readonly SupervisedThread<FrontMessages>[]
}

/** Waiting messages from all fronts: two seconds of triggers at full load. */
const MAILBOX_LIMIT = 8192
const WORK_AT_ONCE = 64
const FRONT_DEADLINE_MS = 1_000
const RESTART = { initialDelayMs: 10, maxDelayMs: 1_000, maxRestarts: 100, windowMs: 60_000 }

/** Each front has at most one health and one metrics request open, for all its clients. */
const OPERATIONS_LIMIT = 256
/** Summing and rendering the metrics of all threads takes about 10 ms of this thread. */
const EXPOSITION_INTERVAL_MS = 1_000

type Operations = Pick<SupervisorMessages, 'health' | 'metrics' | 'lastMetrics'>
type CsrSteps = Pick<SupervisorMessages, 'issueFromCsr'>
type DecisionMessages = Pick<SupervisorMessages, 'noteDecisions'>
type Work = Omit<SupervisorMessages, keyof Operations | keyof CsrSteps | keyof DecisionMessages>

/** Messages of all threads whose acts wait for their record. */
const DECISIONS_LIMIT = 1_024
/** Issuances that fronts wait for. */
const ISSUING_LIMIT = 1_024

export interface Supervisor extends ActorRef<SupervisorMessages> {
  stop(): void
}

export function spawnSupervisor(parts: SupervisorParts): Supervisor {
  const work = spawnWork(parts)
  const operations = spawnOperations(parts)
  const issuing = spawnIssuing(parts)
  const { log, noteDecisions } = parts
  const decisions = spawnActor<DecisionMessages>(log, 'decisions', DECISIONS_LIMIT, { noteDecisions })
  const byKind: Partial<Record<keyof SupervisorMessages, unknown>> = {
    health: operations,
    metrics: operations,
    lastMetrics: operations,
    issueFromCsr: issuing,
    noteDecisions: decisions,
  }
  const actorFor = (kind: keyof SupervisorMessages) => (byKind[kind] ?? work) as ActorRef<SupervisorMessages>
  return {
    name: 'supervisor',
    tell: (kind, message) => actorFor(kind).tell(kind, message),
    ask: (kind, message, deadlineMs) => actorFor(kind).ask(kind, message, deadlineMs),
    stop() {
      work.stop()
      operations.stop()
      issuing.stop()
      decisions.stop()
    },
  }
}

function spawnWork(parts: SupervisorParts) {
  const { log, dispatcher } = parts
  const handlers: Handlers<Work> = {
    validate({ front, requests }) {
      for (const request of requests) {
        if (dispatcher.dispatch(request, front)) continue
        // The claim stays in the database; the challenge worker adopts it when it is stale.
        const { authorizationId } = request
        log.warn({ authorizationId }, 'the validation queue is full')
        parts.sendEnded(front, { authorizationId })
      }
      return undefined
    },
    refusals: (counts) => {
      parts.refusals.add(counts)
      return undefined
    },
    caa: parts.checkCaa,
    mailDomains: parts.checkMailDomains,
  }
  return spawnActor<Work>(log, 'supervisor', MAILBOX_LIMIT, handlers, WORK_AT_ONCE)
}

function spawnOperations(parts: SupervisorParts) {
  const probe = createProbe({ ...parts, backends: () => healthOf(parts) })
  const threadMetrics = createThreadMetrics()
  const exposition = sharedWork(createExposition(parts, probe, threadMetrics), {
    intervalMs: EXPOSITION_INTERVAL_MS,
    mostWaiting: OPERATIONS_LIMIT,
  })
  return spawnActor<Operations>(parts.log, 'operations', OPERATIONS_LIMIT, {
    health: probe.health,
    metrics: exposition,
    lastMetrics({ front, answer }) {
      threadMetrics.handIn(front, answer)
      return undefined
    },
  })
}

function healthOf({ signer, backends }: SupervisorParts): BackendHealth {
  const names = publicNames([...backends.keys()])
  const isUp = [...backends.values()].map((backend) => backend.isUp())
  return { signer, others: names.map((name, i) => ({ name, isUp: isUp[i] === true })) }
}

/** Waits as long as a finalize does; a longer issuance continues without a waiting front. */
function spawnIssuing({ log, csrIssuances, issueWithinMs }: SupervisorParts) {
  return spawnActor<CsrSteps>(log, 'issuing', ISSUING_LIMIT, {
    issueFromCsr: async (certificateId) =>
      csrIssuances ? within(csrIssuances.issue(certificateId), issueWithinMs, 'pending') : 'pending',
  })
}

/** An actor that works on all messages at once, unless fewer are named. The recorder of decisions joins what waits. */
function spawnActor<M extends MessageTable>(
  log: Logger,
  name: string,
  mailboxLimit: number,
  handlers: Handlers<M>,
  concurrency = mailboxLimit,
): Actor<M> {
  return spawn<M>({
    name,
    mailboxLimit,
    concurrency,
    restart: RESTART,
    onFailure: ({ error }) => log.error({ err: error }, `${name} actor failed`),
    start: () => handlers,
  })
}

function createExposition(parts: SupervisorParts, probe: Probe, threadMetrics: ThreadMetrics): () => Promise<string> {
  const { metrics, dispatcher } = parts
  const startedAt = Date.now()

  return async () => {
    const readiness = probe.readiness()
    metrics.uptime.set(Math.floor((Date.now() - startedAt) / 1000))
    reportLoad(dispatcher.load(), metrics)
    reportPool(parts.flags.pool(), metrics)
    reportThread(metrics, 'supervisor')
    reportProcess(metrics)
    metrics.maintenance.set(parts.flags.isOn('maintenance') ? 1 : 0)
    metrics.signingStopped.set(parts.flags.isOn('stopSigning') ? 1 : 0)
    metrics.threads.set(parts.fronts().filter(({ status }) => status === 'running').length)
    const asked = parts.fronts().map(({ ref }) => ref.ask('metrics', undefined, FRONT_DEADLINE_MS))
    if (parts.admin) asked.push(parts.admin.ref.ask('metrics', undefined, FRONT_DEADLINE_MS))
    const events = parts.events.thread()
    if (events) asked.push(events.ref.ask('metrics', undefined, FRONT_DEADLINE_MS))
    const answers = Promise.allSettled(asked)
    const { isCaUp, isDatabaseUp, disk, givenUp, isReady } = await readiness
    metrics.caUp.set(isCaUp ? 1 : 0)
    metrics.databaseUp.set(isDatabaseUp ? 1 : 0)
    for (const kind of DISK_TROUBLES) metrics.databaseDisk.set({ kind }, disk === kind ? 1 : 0)
    metrics.ready.set(isReady ? 1 : 0)
    metrics.givenUp.set(givenUp)
    metrics.databaseBehind.set(parts.isBehind() ? 1 : 0)
    // Removes issuers that have left the signer.
    metrics.issuerNotAfter.reset()
    for (const { id, notAfter } of parts.ca.issuers())
      metrics.issuerNotAfter.set({ issuer: id }, notAfter.getTime() / 1000)
    return renderMetrics([await takeSnapshot(metrics), ...(await threadMetrics.collect(answered(await answers)))])
  }
}

function reportLoad({ known, running, waiting, oldestWaitMs }: DispatcherLoad, metrics: Metrics): void {
  metrics.validationsKnown.set(known)
  metrics.validationsRunning.set(running)
  for (const reason of keysOf(waiting)) metrics.validationsWaiting.set({ for: reason }, waiting[reason])
  metrics.validationOldestWait.set(oldestWaitMs / 1000)
}

function reportPool({ max, size, available, waiting }: PoolNumbers, metrics: Metrics): void {
  const states = { max, open: size, available }
  for (const state of keysOf(states)) metrics.poolConnections.set({ state }, states[state])
  metrics.poolWaiting.set(waiting)
}

/** A thread under replacement does not answer. */
function answered<T>(results: readonly PromiseSettledResult<T>[]): (T | undefined)[] {
  return results.map((result) => (result.status === 'fulfilled' ? result.value : undefined))
}
