/** Entry of a front thread: its own database connections, signer connection, caches and HTTP server on the shared port. */

import { createAcmeApplication } from '../acme/application.ts'
import { createSecurityHeaders } from '../http/common-headers.ts'
import type { HttpHandler, HttpRequest } from '../http/message.ts'
import { listen } from '../http/uws.ts'
import { CRL_REQUEST_HEADERS } from '../ops/crl.ts'
import { createMetrics, takeSnapshot } from '../ops/metrics.ts'
import { Problem } from '../protocol/problem.ts'
import { type Actor, spawn } from '../runtime/actor.ts'
import { runThread } from '../runtime/thread-entry.ts'
import { type InstanceBoard, openInstanceBoard } from '../services/instance-board.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { caaAnswerDeadlineMs } from './caa-checks.ts'
import { createFront, KEPT_HEADERS } from './front.ts'
import { createFrontCrls } from './front-crls.ts'
import { createLogger, PINO_LEVELS } from './logging.ts'
import { mailDomainsThrough } from './mail-domain-checks.ts'
import type { FrontMessages, FrontThreadData, SupervisorMessages } from './messages.ts'
import { openThreadNonces } from './nonces.ts'
import { crlMaxAgeSeconds, databaseSettings, liveSettings, proxySettings } from './settings.ts'
import { connectCa, createAcmeContext, createStores } from './wiring.ts'

/** The supervisor answers from memory; if it does not within this, it is stuck, and health must say so. */
const SUPERVISOR_DEADLINE_MS = 2_000
const POOL_REPORT_MS = 100

runThread<FrontThreadData, FrontMessages, SupervisorMessages>(
  async ({ name, data, supervisor, atExit, requestRecycle }) => {
    const { config, methods, version, instanceId } = data
    const { log, flush } = createLogger(config.logging, name, true)
    let { metricsPath } = liveSettings(config)
    atExit(flush)
    const metrics = createMetrics()
    const db = openDatabase(databaseSettings(config, data.databaseConnections), (error) =>
      log.warn({ reason: error.message }, 'database connection lost'),
    )
    const board = openInstanceBoard(data.board)
    reportPoolTo(board, data.front, db)
    const ca = connectCa({ config, signer: data.signer, board, metrics, log })
    const { nonces, close: closeNonces } = await openThreadNonces(config, data.nonce, db, (error) =>
      log.debug({ err: error }, 'nonce epochs could not be read'),
    )
    const context = createAcmeContext(
      { config, methods, db, stores: createStores(db), ca, instanceId, metrics, log },
      data,
      nonces,
      (request) => {
        try {
          supervisor.tell('validate', request)
        } catch (error) {
          // The challenge stays claimed in the database, from where the challenge worker takes it up.
          log.warn({ authorizationId: request.authorizationId, err: error }, 'a validation could not be handed over')
        }
      },
      (request) => supervisor.ask('caa', request, caaAnswerDeadlineMs(config)),
      mailDomainsThrough((domains, deadlineMs) => supervisor.ask('mailDomains', domains, deadlineMs), config, log),
    )
    const securityHeaders = createSecurityHeaders(config.security.hsts_max_age_seconds)
    const acme = createAcmeApplication(context, securityHeaders)
    const crls = createFrontCrls(data.crls, crlMaxAgeSeconds(config))
    const proxy = proxySettings(config)
    const front = createFront({
      acme,
      board,
      metrics,
      log,
      version,
      proxy,
      scheme: data.tls ? 'https' : 'http',
      securityHeaders,
      metricsPath: () => metricsPath,
      health: () => supervisor.ask('health', undefined, SUPERVISOR_DEADLINE_MS),
      crl: config.crl.enabled ? crls : undefined,
      exposition: () => supervisor.ask('metrics', undefined, SUPERVISOR_DEADLINE_MS),
    })
    const maxBodyBytes = config.security.max_request_body_bytes

    const server = await listen({
      host: config.server.bind,
      port: config.server.port,
      ...(data.tls && { tls: data.tls }),
      maxBodyBytes,
      keptHeaders: [
        ...KEPT_HEADERS,
        ...(config.crl.enabled ? CRL_REQUEST_HEADERS : []),
        proxy.forwardedForHeader,
        proxy.forwardedProtoHeader,
      ],
      listHeaders: [proxy.forwardedForHeader],
      handler: recycling(front.handle, config.server, () => requestRecycle('server.max_requests is reached')),
      onError: front.onError,
      tooLarge: (http) =>
        front.refuse(
          http,
          new Problem('malformed', `a request body may have at most ${maxBodyBytes} bytes`, { status: 413 }),
        ),
      badRequest: (http) =>
        front.refuse(
          http,
          new Problem(
            'malformed',
            'it is not certain where the body ends: give one Content-Length, or Transfer-Encoding: chunked',
          ),
        ),
      onAborted: (http: HttpRequest) => log.debug({ path: http.path }, 'client went away'),
    })
    atExit(() => server.close())

    const actor: Actor<FrontMessages> = spawn<FrontMessages>({
      name,
      mailboxLimit: 64,
      concurrency: 4,
      restart: { initialDelayMs: 10, maxDelayMs: 1_000, maxRestarts: 5, windowMs: 60_000 },
      onFailure: ({ error }) => log.error({ err: error }, 'front actor failed'),
      start: () => ({
        metrics: () => takeSnapshot(metrics),
        live: (settings) => {
          context.limits.apply(settings.rateLimits)
          log.level = PINO_LEVELS[settings.logLevel]
          metricsPath = settings.metricsPath
        },
        crls: crls.replace,
      }),
    })

    return {
      actor,
      async drain(deadlineMs) {
        const deadline = performance.now() + deadlineMs
        await server.drain(deadlineMs)
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

/**
 * Writes this thread's pool numbers to the board. After the turn's input has been read: a thread that was held up for a
 * second must first see what its connections have answered meanwhile.
 */
function reportPoolTo(board: InstanceBoard, front: number, db: Database): void {
  setInterval(() => setImmediate(() => board.reportPool(front, db.pressure())), POOL_REPORT_MS).unref()
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
