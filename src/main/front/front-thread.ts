/**
 * Entry of a front thread: its database and signer connections, caches, and HTTP server on the
 * shared port.
 */

import type { Logger } from 'pino'
import { createAcmeApplication } from '../../acme/application.ts'
import { AdminGate, type AdminPort } from '../../admin/gate.ts'
import type { AdminMessages } from '../../admin/message.ts'
import { csrBackendNames } from '../../config/backends.ts'
import { RefusalTally } from '../../events/abuse-summary.ts'
import { AnswerEvents, overloadEvents } from '../../front/events.ts'
import { createDeadlines } from '../../front/exchange.ts'
import { Front, type FrontOptions } from '../../front/front.ts'
import { trustedProxies } from '../../http/client-address.ts'
import { createSecurityHeaders, type HttpReply } from '../../http/message.ts'
import type { HttpServer } from '../../http/server.ts'
import { listen } from '../../http/uws.ts'
import { createLogger, PINO_LEVELS } from '../../ops/logging.ts'
import { createMetrics } from '../../ops/metrics.ts'
import { answerOf } from '../../ops/thread-metrics.ts'
import { BUSY } from '../../overload/admission.ts'
import { TICK_MS } from '../../overload/overload.ts'
import { OverloadControl } from '../../overload/overload-control.ts'
import { type Actor, type ActorRef, spawn } from '../../runtime/actor.ts'
import { runThread, type ThreadContext } from '../../runtime/thread-entry.ts'
import type { AttemptEnded, DispatchValidation, ValidationRequest } from '../../services/challenge-triggers.ts'
import type { CsrOutcome } from '../../services/csr-step.ts'
import { openSharedFlags, type SharedFlags } from '../../services/shared-state.ts'
import { adminSettings } from '../../settings/admin.ts'
import { liveSettings, overloadSettings, proxySettings, threadDatabaseSettings } from '../../settings/server.ts'
import { batchPerTick } from '../../shared/lib/batch-per-tick.ts'
import { sharedWork } from '../../shared/lib/caching.ts'
import { externalPathOf } from '../../shared/protocol/urls.ts'
import { type Database, openDatabase } from '../../store/database.ts'
import { GROUP_DISTANCE_MS } from '../../store/pipeline.ts'
import { caaAnswerDeadlineMs } from '../../validation/caa-checks.ts'
import { mailDomainsThrough } from '../../validation/mail-domain-checks.ts'
import { connectCa } from '../ca/signer-connection.ts'
import { createEventWriter } from '../event-writer.ts'
import type { FrontMessages, FrontThreadData, SupervisorMessages } from '../messages.ts'
import { createStores } from '../stores.ts'
import { createAcmeContext } from './acme-context.ts'
import { createFrontCrls, listenForCrls } from './front-crls.ts'
import { openThreadNonces } from './front-nonces.ts'
import { frontListenOptions } from './listen-options.ts'

/**
 * Exceeds the time of all probes together. A slower supervisor is stuck, and health must report
 * that.
 */
const SUPERVISOR_DEADLINE_MS = 4_000
/**
 * Any client may request health and metrics, and they share the port of the validation hand-over.
 */
const OPERATIONS = { intervalMs: 0, mostWaiting: 1_024 }
/** Exceeds the 25 s that a bulk revocation waits. */
const ADMIN_DEADLINE_MS = 35_000
/** Exceeds the longest wait of a finalize. */
const ISSUING_DEADLINE_MS = 120_000
const POOL_REPORT_MS = 100
const REFUSALS_REPORT_MS = 5_000
type Context = ThreadContext<FrontThreadData, SupervisorMessages, AdminMessages>
type Parts = Awaited<ReturnType<typeof assemble>>

runThread<FrontThreadData, FrontMessages, SupervisorMessages, AdminMessages>(async (thread) => {
  const parts = await assemble(thread)
  const servers = await startServers(thread, parts)
  startTicks(parts, servers)
  const handIn = async () => {
    try {
      thread.supervisor.tell('lastMetrics', { front: thread.data.front, answer: await answerOf(parts.metrics) })
    } catch (error) {
      parts.log.debug({ err: error }, 'the supervisor did not take the last metrics')
    }
  }
  return {
    actor: spawnActor(thread.name, parts),
    async drain(deadlineMs) {
      // The thread may be ended at the deadline.
      await handIn()
      await drain(parts, servers, deadlineMs)
      await handIn()
    },
  }
})

/** Builds all parts of a front before it listens. */
async function assemble({ name, data, supervisor, atExit }: Context) {
  const { config, methods, instanceId } = data
  const { log, flush } = createLogger(config.logging, name, true)
  atExit(flush)
  const metrics = createMetrics()
  const db = openDatabase(threadDatabaseSettings(config), (error) =>
    log.warn({ reason: error.message }, 'database connection lost'),
  )
  const flags = openSharedFlags(data.flags)
  reportPoolTo(flags, data.front, db)
  const eventWriter = createEventWriter(db, log, metrics)
  const ca = connectCa({ config, signer: data.signer, flags, metrics, log })
  const { nonces, close: closeNonces } = await openThreadNonces(config, data.nonce, db, log)
  const proxy = proxySettings(config)
  const isTrustedProxy = trustedProxies(proxy)
  const overload = new OverloadControl<HttpReply>({
    ...overloadSettings(config),
    isTrustedProxy,
    events: overloadEvents(log, metrics),
  })
  const context = createAcmeContext({
    thread: { config, methods, db, stores: createStores(db), ca, instanceId, metrics, log, eventWriter },
    memory: data,
    nonces,
    budget: overload.budget,
    dispatch: validationsThrough(supervisor, data.front, log, (lost) => context.challenges.ended(lost)),
    waitEvents: overload.admission,
    askForCaa: (request) => supervisor.ask('caa', request, caaAnswerDeadlineMs(config)),
    issueFromCsr: csrIssuancesThrough(supervisor, config, log),
    askForMailDomains: mailDomainsThrough(
      (domains, deadlineMs) => supervisor.ask('mailDomains', domains, deadlineMs),
      config,
      log,
    ),
  })
  const refusals = refusalsTo(supervisor, log)
  const crls = createFrontCrls(data.crls, config.crl.rebuild_interval_seconds)
  /** Changes when the configuration is reloaded. */
  const live = { metricsPath: liveSettings(config).metricsPath }
  return {
    log,
    metrics,
    db,
    eventWriter,
    refusals,
    flags,
    ca,
    closeNonces,
    proxy,
    isTrustedProxy,
    overload,
    context,
    crls,
    live,
  }
}

const sumOf = (servers: readonly HttpServer[], value: (server: HttpServer) => number): number =>
  servers.reduce((sum, server) => sum + value(server), 0)

/** @returns the server of the service, and that of `crl.http_port` where there is one */
async function startServers(
  { data, supervisor, peer, atExit, requestRecycle }: Context,
  parts: Parts,
): Promise<HttpServer[]> {
  const { config, version, tls } = data
  const { flags, overload, metrics, log, eventWriter, refusals, proxy, isTrustedProxy, context, crls, live } = parts
  const securityHeaders = createSecurityHeaders(config.security.hsts_max_age_seconds)
  const acme = createAcmeApplication(context, securityHeaders)
  const gate = adminGate(config, peer, log)
  const frontOptions: FrontOptions = {
    acme,
    flags,
    overload,
    metrics,
    log,
    version,
    proxy,
    securityHeaders,
    deadlines: createDeadlines(config.server.timeout),
    scheme: tls ? 'https' : 'http',
    events: new AnswerEvents({ log, writer: eventWriter, refusals: refusals.tally }),
    externalPath: externalPathOf(config.server.external_url),
    metricsPath: () => live.metricsPath,
    health: sharedWork(() => supervisor.ask('health', undefined, SUPERVISOR_DEADLINE_MS), OPERATIONS),
    crl: config.crl.enabled ? crls : undefined,
    admin: config.admin_api.listen === null ? gate : undefined,
    metricsGuard: config.metrics.auth_required ? gate : undefined,
    exposition: sharedWork(() => supervisor.ask('metrics', undefined, SUPERVISOR_DEADLINE_MS), OPERATIONS),
  }
  const servers: HttpServer[] = []
  const listenOptions = frontListenOptions({
    config,
    tls,
    overload,
    proxy,
    isTrustedProxy,
    log,
    admin: frontOptions.admin,
    front: new Front(frontOptions),
    openConnections: () => sumOf(servers, (server) => server.openConnections),
    recycle: () => requestRecycle('server.max_requests is reached'),
  })
  atExit(() => {
    for (const server of servers) server.close()
  })
  servers.push(listen(listenOptions))
  const crlPort = config.crl.enabled ? config.crl.http_port : null
  if (crlPort !== null)
    servers.push(await listenForCrls(listenOptions, crlPort, new Front({ ...frontOptions, scheme: 'http' }), acme))
  return servers
}

function startTicks({ db, overload }: Parts, servers: readonly HttpServer[]): void {
  const utilizationSinceTick = createUtilization()
  setInterval(() => {
    const utilization = utilizationSinceTick()
    const requests = sumOf(servers, ({ counters }) => counters.requests)
    const refusedConnections = sumOf(servers, ({ counters }) => counters.refusedConnections)
    db.pipeline.keepDistance(utilization > BUSY ? GROUP_DISTANCE_MS : 0)
    overload.tick(performance.now(), { requests, refusedConnections, utilization })
  }, TICK_MS).unref()
}

/** @returns undefined when there is no Admin API */
function adminGate(
  config: FrontThreadData['config'],
  admin: ActorRef<AdminMessages>,
  log: Logger,
): AdminGate | undefined {
  if (!config.admin_api.enabled) return undefined
  const port: AdminPort = {
    request: (request) => admin.ask('request', request, ADMIN_DEADLINE_MS),
    next: (stream) => admin.ask('next', stream, ADMIN_DEADLINE_MS),
    cancel(stream) {
      try {
        admin.tell('cancel', stream)
      } catch (error) {
        // A stream that nobody reads ends by itself.
        log.debug({ err: error }, 'a stream could not be cancelled')
      }
    },
  }
  return new AdminGate({ port, ...adminSettings(config) })
}

/** Handles the supervisor's messages. */
function spawnActor(name: string, { log, metrics, context, crls, live }: Parts): Actor<FrontMessages> {
  return spawn<FrontMessages>({
    name,
    mailboxLimit: 64,
    concurrency: 4,
    restart: { initialDelayMs: 10, maxDelayMs: 1_000, maxRestarts: 5, windowMs: 60_000 },
    onFailure: ({ error }) => log.error({ err: error }, 'front actor failed'),
    start: () => ({
      metrics: () => answerOf(metrics),
      live: (settings) => {
        context.limits.apply(settings.rateLimits)
        log.level = PINO_LEVELS[settings.logLevel]
        live.metricsPath = settings.metricsPath
      },
      crls: crls.replace,
      attempts: (ended) => {
        context.challenges.ended(ended)
        return undefined
      },
    }),
  })
}

async function drain(parts: Parts, servers: readonly HttpServer[], deadlineMs: number): Promise<void> {
  const { overload, context, closeNonces, ca, db, eventWriter, refusals } = parts
  const deadline = performance.now() + deadlineMs
  overload.release()
  context.validationWaits.release()
  await Promise.all(servers.map((server) => server.drain(deadlineMs)))
  // A finalize whose reply has gone out as `processing` still records its certificate.
  while (context.issuance.inFlight() > 0 && performance.now() < deadline)
    await new Promise((resolve) => setTimeout(resolve, 10))
  refusals.report()
  await closeNonces()
  await ca.close()
  await eventWriter.close()
  await db.close()
}

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

interface Refusals {
  tally: RefusalTally
  /** Tells the supervisor what was counted since the last report. */
  report(): void
}

/** Sums of the thread go to the supervisor, which has one summary for the instance. */
function refusalsTo(supervisor: ActorRef<SupervisorMessages>, log: Logger): Refusals {
  const tally = new RefusalTally()
  const report = () => {
    const counts = tally.take()
    if (!counts) return
    try {
      supervisor.tell('refusals', counts)
    } catch (error) {
      log.debug({ err: error }, 'counts of refusals were lost')
    }
  }
  setInterval(report, REFUSALS_REPORT_MS).unref()
  return { tally, report }
}

/** @returns undefined when the signer signs everything */
function csrIssuancesThrough(supervisor: ActorRef<SupervisorMessages>, config: FrontThreadData['config'], log: Logger) {
  if (csrBackendNames(config).length === 0) return undefined
  return (certificateId: string): Promise<CsrOutcome> =>
    supervisor.ask('issueFromCsr', certificateId, ISSUING_DEADLINE_MS).catch((error: unknown) => {
      // The row stands in the database, and a round of the supervisor finds it.
      log.debug({ certificateId, err: error }, 'an issuance could not be handed over')
      return 'pending'
    })
}

/** Hands over all validations of one tick in one message. */
function validationsThrough(
  supervisor: ActorRef<SupervisorMessages>,
  front: number,
  log: Logger,
  onLost: (attempts: readonly AttemptEnded[]) => void,
): DispatchValidation {
  return batchPerTick<ValidationRequest>((requests) => {
    try {
      supervisor.tell('validate', { front, requests })
    } catch (error) {
      // The claims stay in the database, and the challenge worker adopts them later.
      const authorizationIds = requests.map(({ authorizationId }) => authorizationId)
      log.warn({ authorizationIds, err: error }, 'validations could not be handed over')
      onLost(requests.map(({ authorizationId }) => ({ authorizationId })))
    }
  })
}

/**
 * Writes this thread's pool figures to the shared flags, at once and then several times a second.
 * Input is read first, or a thread that was blocked would report answers as outstanding.
 */
function reportPoolTo(flags: SharedFlags, front: number, db: Database): void {
  const report = () => flags.reportPool(front, db.pressure())
  report()
  setInterval(() => setImmediate(report), POOL_REPORT_MS).unref()
}
