/**
 * Entry of a front thread: its database and signer connections, caches, and HTTP server on the
 * shared port.
 */

import { threadId } from 'node:worker_threads'
import type { Logger } from 'pino'
import { createAcmeApplication } from '../acme/application.ts'
import { createSecurityHeaders } from '../http/common-headers.ts'
import { trustedProxies } from '../http/forwarded.ts'
import type { HttpReply } from '../http/message.ts'
import type { HttpServer } from '../http/server.ts'
import { listen } from '../http/uws.ts'
import { createLogger, PINO_LEVELS } from '../main/logging.ts'
import type { FrontMessages, FrontThreadData, SupervisorMessages } from '../main/messages.ts'
import { openThreadNonces } from '../main/nonces.ts'
import { crlMaxAgeSeconds } from '../main/settings/issuance.ts'
import { liveSettings, overloadSettings, proxySettings, threadDatabaseSettings } from '../main/settings/server.ts'
import { caaAnswerDeadlineMs } from '../main/validation/caa-checks.ts'
import { mailDomainsThrough } from '../main/validation/mail-domain-checks.ts'
import { connectCa, createAcmeContext, createStores } from '../main/wiring.ts'
import { createMetrics, takeSnapshot } from '../ops/metrics.ts'
import { BUSY } from '../overload/admission.ts'
import { TICK_MS } from '../overload/overload.ts'
import { OverloadControl } from '../overload/overload-control.ts'
import { type Actor, type ActorRef, spawn } from '../runtime/actor.ts'
import { runThread, type ThreadContext } from '../runtime/thread-entry.ts'
import { type InstanceBoard, openInstanceBoard } from '../services/instance-board.ts'
import type { AttemptEnded, DispatchValidation, ValidationRequest } from '../services/validation.ts'
import { gatherTurns } from '../shared/lib/gather.ts'
import { sharedWork } from '../shared/lib/shared-work.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { GROUP_DISTANCE_MS } from '../store/pipeline.ts'
import { listenForCrls } from './crl-port.ts'
import { createFrontCrls } from './crls.ts'
import { createDeadlines } from './deadlines.ts'
import { Front, type FrontOptions } from './front.ts'
import { frontListenOptions } from './listen-options.ts'
import { overloadEvents } from './overload-events.ts'

/**
 * Exceeds the time of all probes together. A slower supervisor is stuck, and health must report
 * that.
 */
const SUPERVISOR_DEADLINE_MS = 4_000
/**
 * Any client may request health and metrics, and they share the port of the validation hand-over.
 */
const OPERATIONS = { intervalMs: 0, mostWaiting: 1_024 }
const POOL_REPORT_MS = 100
type Context = ThreadContext<FrontThreadData, SupervisorMessages>
type Parts = Awaited<ReturnType<typeof assemble>>

runThread<FrontThreadData, FrontMessages, SupervisorMessages>(async (thread) => {
  const parts = await assemble(thread)
  const servers = await startServers(thread, parts)
  startTicks(parts, servers)
  return { actor: spawnActor(thread.name, parts), drain: (deadlineMs) => drain(parts, servers, deadlineMs) }
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
  const board = openInstanceBoard(data.board)
  reportPoolTo(board, data.front, db)
  const ca = connectCa({ config, signer: data.signer, board, metrics, log })
  const { nonces, close: closeNonces } = await openThreadNonces(config, data.nonce, db, (error) =>
    log.debug({ err: error }, 'nonce epochs could not be read'),
  )
  const proxy = proxySettings(config)
  const isTrustedProxy = trustedProxies(proxy)
  const overload = new OverloadControl<HttpReply>({
    ...overloadSettings(config),
    isTrustedProxy,
    events: overloadEvents(log, metrics),
  })
  const context = createAcmeContext({
    shared: { config, methods, db, stores: createStores(db), ca, instanceId, metrics, log },
    memory: data,
    nonces,
    budget: overload.budget,
    dispatch: validationsThrough(supervisor, data.front, log, (lost) => context.challenges.ended(lost)),
    waitEvents: overload.admission,
    askForCaa: (request) => supervisor.ask('caa', request, caaAnswerDeadlineMs(config)),
    askForMailDomains: mailDomainsThrough(
      (domains, deadlineMs) => supervisor.ask('mailDomains', domains, deadlineMs),
      config,
      log,
    ),
  })
  const crls = createFrontCrls(data.crls, crlMaxAgeSeconds(config))
  /** Changes when the configuration is reloaded. */
  const live = { metricsPath: liveSettings(config).metricsPath }
  return { log, metrics, db, board, ca, closeNonces, proxy, isTrustedProxy, overload, context, crls, live }
}

const sumOf = (servers: readonly HttpServer[], value: (server: HttpServer) => number): number =>
  servers.reduce((sum, server) => sum + value(server), 0)

/** @returns the server of the service, and that of `crl.http_port` where there is one */
async function startServers(
  { data, supervisor, atExit, requestRecycle }: Context,
  parts: Parts,
): Promise<HttpServer[]> {
  const { config, version, tls } = data
  const { board, overload, metrics, log, proxy, isTrustedProxy, context, crls, live } = parts
  const securityHeaders = createSecurityHeaders(config.security.hsts_max_age_seconds)
  const acme = createAcmeApplication(context, securityHeaders)
  const frontOptions: FrontOptions = {
    ...{ acme, board, overload, metrics, log, version, proxy, securityHeaders },
    deadlines: createDeadlines(config.server.timeout),
    scheme: tls ? 'https' : 'http',
    metricsPath: () => live.metricsPath,
    health: sharedWork(() => supervisor.ask('health', undefined, SUPERVISOR_DEADLINE_MS), OPERATIONS),
    crl: config.crl.enabled ? crls : undefined,
    exposition: sharedWork(() => supervisor.ask('metrics', undefined, SUPERVISOR_DEADLINE_MS), OPERATIONS),
  }
  const servers: HttpServer[] = []
  const listenOptions = frontListenOptions({
    ...{ config, tls, overload, proxy, isTrustedProxy, log },
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

/** Handles the supervisor's messages. */
function spawnActor(name: string, { log, metrics, context, crls, live }: Parts): Actor<FrontMessages> {
  return spawn<FrontMessages>({
    name,
    mailboxLimit: 64,
    concurrency: 4,
    restart: { initialDelayMs: 10, maxDelayMs: 1_000, maxRestarts: 5, windowMs: 60_000 },
    onFailure: ({ error }) => log.error({ err: error }, 'front actor failed'),
    start: () => ({
      metrics: async () => ({ threadId, snapshot: await takeSnapshot(metrics) }),
      live: (settings) => {
        context.limits.apply(settings.rateLimits)
        log.level = PINO_LEVELS[settings.logLevel]
        live.metricsPath = settings.metricsPath
      },
      crls: crls.replace,
      attempts: (news) => {
        context.challenges.ended(news)
        return undefined
      },
    }),
  })
}

async function drain(parts: Parts, servers: readonly HttpServer[], deadlineMs: number): Promise<void> {
  const { overload, context, closeNonces, ca, db } = parts
  const deadline = performance.now() + deadlineMs
  overload.release()
  context.validationWaits.release()
  await Promise.all(servers.map((server) => server.drain(deadlineMs)))
  // A finalize whose reply has gone out as `processing` still records its certificate.
  while (context.issuance.inFlight() > 0 && performance.now() < deadline)
    await new Promise((resolve) => setTimeout(resolve, 10))
  await closeNonces()
  await ca.close()
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

/** Hands over all validations of one tick in one message. */
function validationsThrough(
  supervisor: ActorRef<SupervisorMessages>,
  front: number,
  log: Logger,
  onLost: (news: readonly AttemptEnded[]) => void,
): DispatchValidation {
  return gatherTurns<ValidationRequest>((requests) => {
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
 * Writes this thread's pool figures to the board, at once and then several times a second. Input is
 * read first, so that a thread blocked for a second does not report answers as outstanding.
 */
function reportPoolTo(board: InstanceBoard, front: number, db: Database): void {
  const report = () => board.reportPool(front, db.pressure())
  report()
  setInterval(() => setImmediate(report), POOL_REPORT_MS).unref()
}
