/** Entry of a front thread: its own database connections, signer connection, caches and HTTP server on the shared port. */

import { threadId } from 'node:worker_threads'
import type { Logger } from 'pino'
import { createAcmeApplication } from '../acme/application.ts'
import { createSecurityHeaders } from '../http/common-headers.ts'
import { trustedProxies } from '../http/forwarded.ts'
import type { HttpHandler, HttpReply, HttpRequest } from '../http/message.ts'
import type { HttpServer, ListenOptions } from '../http/server.ts'
import { listen } from '../http/uws.ts'
import { createLogger, PINO_LEVELS } from '../main/logging.ts'
import type { FrontMessages, FrontThreadData, SupervisorMessages } from '../main/messages.ts'
import { openThreadNonces } from '../main/nonces.ts'
import { crlMaxAgeSeconds } from '../main/settings/issuance.ts'
import { liveSettings, overloadSettings, proxySettings, threadDatabaseSettings } from '../main/settings/server.ts'
import { caaAnswerDeadlineMs } from '../main/validation/caa-checks.ts'
import { mailDomainsThrough } from '../main/validation/mail-domain-checks.ts'
import { connectCa, createAcmeContext, createStores } from '../main/wiring.ts'
import { CRL_REQUEST_HEADERS } from '../ops/crl.ts'
import { createMetrics, takeSnapshot } from '../ops/metrics.ts'
import { BUSY } from '../overload/admission.ts'
import { TICK_MS } from '../overload/overload.ts'
import { OverloadControl } from '../overload/overload-control.ts'
import { type Actor, type ActorRef, spawn } from '../runtime/actor.ts'
import { runThread } from '../runtime/thread-entry.ts'
import { type InstanceBoard, openInstanceBoard } from '../services/instance-board.ts'
import type { AttemptNews, DispatchValidation, ValidationRequest } from '../services/validation.ts'
import { gatherTurns } from '../shared/lib/gather.ts'
import { sharedWork } from '../shared/lib/shared-work.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { GROUP_DISTANCE_MS } from '../store/pipeline.ts'
import { listenForCrls } from './crl-port.ts'
import { createFrontCrls } from './crls.ts'
import { createDeadlines } from './deadlines.ts'
import { Front, type FrontOptions, KEPT_HEADERS } from './front.ts'
import { overloadEvents } from './overload-events.ts'

/** Longer than all probes together may take; a supervisor that does not answer within this is stuck, and health must say so. */
const SUPERVISOR_DEADLINE_MS = 4_000
/** Asked for by anybody, and over the port that validations are handed over by. */
const OPERATIONS = { intervalMs: 0, mostWaiting: 1_024 }
const POOL_REPORT_MS = 100
/** For bodies that a thread receives in pieces: 512 of the largest by default, 64 from one address. */
const MAX_BUFFERED_BYTES = 32 * 1024 * 1024

const AMBIGUOUS_LENGTH = new Problem(
  'malformed',
  'it is not certain where the body ends: give one Content-Length, or Transfer-Encoding: chunked',
)

runThread<FrontThreadData, FrontMessages, SupervisorMessages>(
  async ({ name, data, supervisor, atExit, requestRecycle }) => {
    const { config, methods, version, instanceId } = data
    const { log, flush } = createLogger(config.logging, name, true)
    let { metricsPath } = liveSettings(config)
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
    const context = createAcmeContext(
      { config, methods, db, stores: createStores(db), ca, instanceId, metrics, log },
      data,
      nonces,
      overload.budget,
      validationsThrough(supervisor, data.front, log, (lost) => context.challenges.ended(lost)),
      overload.admission,
      (request) => supervisor.ask('caa', request, caaAnswerDeadlineMs(config)),
      mailDomainsThrough((domains, deadlineMs) => supervisor.ask('mailDomains', domains, deadlineMs), config, log),
    )
    const securityHeaders = createSecurityHeaders(config.security.hsts_max_age_seconds)
    const acme = createAcmeApplication(context, securityHeaders)
    const crls = createFrontCrls(data.crls, crlMaxAgeSeconds(config))
    const frontOptions: FrontOptions = {
      acme,
      board,
      overload,
      deadlines: createDeadlines(config.server.timeout),
      metrics,
      log,
      version,
      proxy,
      scheme: data.tls ? 'https' : 'http',
      securityHeaders,
      metricsPath: () => metricsPath,
      health: sharedWork(() => supervisor.ask('health', undefined, SUPERVISOR_DEADLINE_MS), OPERATIONS),
      crl: config.crl.enabled ? crls : undefined,
      exposition: sharedWork(() => supervisor.ask('metrics', undefined, SUPERVISOR_DEADLINE_MS), OPERATIONS),
    }
    const front = new Front(frontOptions)
    const maxBodyBytes = config.security.max_request_body_bytes

    const tooLarge = new Problem('malformed', `a request body may have at most ${maxBodyBytes} bytes`, { status: 413 })

    const servers: HttpServer[] = []
    const total = (of: (server: HttpServer) => number) => servers.reduce((sum, server) => sum + of(server), 0)
    const listenOptions: ListenOptions = {
      host: config.server.bind,
      port: config.server.port,
      ...(data.tls && { tls: data.tls }),
      maxBodyBytes,
      maxBufferedBytes: Math.max(MAX_BUFFERED_BYTES, 16 * maxBodyBytes),
      isTrustedProxy,
      admit: (http) => front.admit(http),
      // Of both ports, as they share the thread.
      accept: (address) =>
        overload.acceptsConnection(
          address,
          total(({ openConnections }) => openConnections),
        ),
      busy: (http) => front.busy(http),
      keptHeaders: [
        ...KEPT_HEADERS,
        ...(config.crl.enabled ? CRL_REQUEST_HEADERS : []),
        proxy.forwardedForHeader,
        proxy.forwardedProtoHeader,
      ],
      listHeaders: [proxy.forwardedForHeader],
      handler: recycling(
        closing((http) => front.handle(http), config.server.keepalive),
        config.server,
        () => requestRecycle('server.max_requests is reached'),
      ),
      onError: (error, http) => front.onError(error, http),
      tooLarge: (http) => front.answerWith(tooLarge, http),
      badRequest: (http) => front.answerWith(AMBIGUOUS_LENGTH, http),
      onAborted: ({ path, peerAddress }: HttpRequest) => log.debug({ path, peerAddress }, 'client went away'),
    }
    atExit(() => {
      for (const server of servers) server.close()
    })
    servers.push(listen(listenOptions))
    const crlPort = config.crl.enabled ? config.crl.http_port : null
    if (crlPort !== null)
      servers.push(await listenForCrls(listenOptions, crlPort, new Front({ ...frontOptions, scheme: 'http' }), acme))
    const utilization = createUtilization()
    setInterval(() => {
      const used = utilization()
      db.pipeline.keepDistance(used > BUSY ? GROUP_DISTANCE_MS : 0)
      overload.tick(performance.now(), {
        requests: total(({ counters }) => counters.requests),
        refusedConnections: total(({ counters }) => counters.refusedConnections),
        utilization: used,
      })
    }, TICK_MS).unref()

    const actor: Actor<FrontMessages> = spawn<FrontMessages>({
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
          metricsPath = settings.metricsPath
        },
        crls: crls.replace,
        attempts: (news) => {
          context.challenges.ended(news)
          return undefined
        },
      }),
    })

    return {
      actor,
      async drain(deadlineMs) {
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
      },
    }
  },
)

/** Share of the time since the last call that this thread was at work. */
function createUtilization(): () => number {
  let before = performance.eventLoopUtilization()
  return () => {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, before)
    before = now
    return utilization
  }
}

/** What one statement has committed travels together. */
function validationsThrough(
  supervisor: ActorRef<SupervisorMessages>,
  front: number,
  log: Logger,
  onLost: (news: readonly AttemptNews[]) => void,
): DispatchValidation {
  return gatherTurns<ValidationRequest>((requests) => {
    try {
      supervisor.tell('validate', { front, requests })
    } catch (error) {
      // What is claimed stays so in the database, from where the challenge worker takes it up.
      const authorizationIds = requests.map(({ authorizationId }) => authorizationId)
      log.warn({ authorizationIds, err: error }, 'validations could not be handed over')
      onLost(requests.map(({ authorizationId }) => ({ authorizationId })))
    }
  })
}

/**
 * Writes this thread's pool numbers to the board: now, so that its first request finds them, and a few times a second. After
 * the turn's input has been read: a thread that was held up for a second must first see what its connections have answered
 * meanwhile.
 */
function reportPoolTo(board: InstanceBoard, front: number, db: Database): void {
  const report = () => board.reportPool(front, db.pressure())
  report()
  setInterval(() => setImmediate(report), POOL_REPORT_MS).unref()
}

/** `server.keepalive: 0`. */
function closing(handler: HttpHandler, keepalive: number | null): HttpHandler {
  if (keepalive !== 0) return handler
  const close = (reply: HttpReply): HttpReply => ({ ...reply, closes: true })
  return (http) => {
    const reply = handler(http)
    return reply instanceof Promise ? reply.then(close) : close(reply)
  }
}

/** Counts requests towards `server.max_requests`, with the jitter that keeps threads from being replaced together. */
function recycling(
  handler: HttpHandler,
  settings: { max_requests: number; max_requests_jitter: number },
  recycle: () => void,
): HttpHandler {
  if (settings.max_requests === 0) return handler
  let left = settings.max_requests + Math.floor(Math.random() * (settings.max_requests_jitter + 1))
  return (http) => {
    if (--left === 0) recycle()
    return handler(http)
  }
}
