/** How a front thread listens: what answers at its ports, its limits, its headers, and its handler. */

import type { Logger } from 'pino'
import { createAcmeApplication } from '../../acme/application.ts'
import type { AcmeContext } from '../../acme/endpoint.ts'
import { ADMIN_REQUEST_HEADERS, AdminGate, type AdminPort } from '../../admin/admin-gate.ts'
import type { AdminMessages } from '../../admin/admin-message.ts'
import type { EventWriter } from '../../events/event-writer.ts'
import { AnswerEvents, type AnswerEventsOptions } from '../../front/events.ts'
import { createDeadlines } from '../../front/exchange.ts'
import { Front, type FrontOptions, KEPT_HEADERS } from '../../front/front.ts'
import { CACHE_REQUEST_HEADERS } from '../../front/operations.ts'
import { bodyMemoryFor } from '../../http/body-memory.ts'
import {
  createSecurityHeaders,
  type HttpHandler,
  type HttpReply,
  type HttpServer,
  type ListenOptions,
} from '../../http/http-message.ts'
import { listen } from '../../http/uws.ts'
import type { ActorRef } from '../../runtime/actor.ts'
import type { ThreadContext } from '../../runtime/thread-entry.ts'
import { adminSettings } from '../../settings/admin-settings.ts'
import { sharedWork } from '../../shared/lib/caching.ts'
import { Problem } from '../../shared/protocol/problem.ts'
import { externalPathOf } from '../../shared/protocol/urls.ts'
import type { FrontThreadData, SupervisorMessages } from '../messages.ts'
import { createFrontRoots, listenForCrls, type RootParts, type ThreadCrls } from './front-documents.ts'
import { sumOf } from './front-rounds.ts'
import type { Refusals } from './through-supervisor.ts'

/** Exceeds the time of all probes together. A slower supervisor is stuck, and health must report that. */
const SUPERVISOR_DEADLINE_MS = 6_000
/** Any client may request health and metrics, and they share the port of the validation hand-over. */
const OPERATIONS = { intervalMs: 0, mostWaiting: 1_024 }
/** Exceeds the 25 s that a bulk revocation waits. */
const ADMIN_DEADLINE_MS = 35_000

interface ServerParts
  extends RootParts,
    Pick<FrontOptions, 'flags' | 'overload' | 'metrics' | 'log' | 'proxy' | 'errors'> {
  context: AcmeContext
  eventWriter: EventWriter
  refusals: Refusals
  activity: AnswerEventsOptions['activity']
  crls: ThreadCrls
  /** Changes when the configuration is reloaded. */
  live: { metricsPath: string | undefined }
  isTrustedProxy(address: string): boolean
}

/** @returns the server of the service, and the one of `crl.http_port` where there is one */
export async function startServers(
  { data, supervisor, peer, atExit, requestRecycle }: ThreadContext<FrontThreadData, SupervisorMessages, AdminMessages>,
  parts: ServerParts,
): Promise<HttpServer[]> {
  const { config, version, tls } = data
  const { flags, overload, metrics, log, eventWriter, refusals, proxy, isTrustedProxy, context, live, errors } = parts
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
    events: new AnswerEvents({ log, writer: eventWriter, refusals: refusals.tally, activity: parts.activity }),
    errors,
    externalPath: externalPathOf(config.server.external_url),
    metricsPath: () => live.metricsPath,
    health: sharedWork(() => supervisor.ask('health', undefined, SUPERVISOR_DEADLINE_MS), OPERATIONS),
    crl: config.crl.enabled ? parts.crls : undefined,
    roots: createFrontRoots(config, parts, data.rootsPem),
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
        // A stream without a reader ends by itself.
        log.debug({ err: error }, 'a stream could not be cancelled')
      }
    },
  }
  return new AdminGate({ port, ...adminSettings(config) })
}

interface FrontListenOptions extends Pick<FrontOptions, 'overload' | 'proxy' | 'log' | 'admin'> {
  config: FrontThreadData['config']
  tls: FrontThreadData['tls']
  front: Front
  isTrustedProxy(address: string): boolean
  /** Open connections of all ports of the thread. */
  openConnections(): number
  /** Replaces the thread when `server.max_requests` is reached. */
  recycle(): void
}

const AMBIGUOUS = new Problem(
  'malformed',
  'it is not certain which host is meant or where the body ends: give one valid Host and one Content-Length, or fewer chunks',
)

function frontListenOptions(options: FrontListenOptions): ListenOptions {
  const { config, tls, front, overload, proxy, isTrustedProxy, log, admin } = options
  const maxBodyBytes = config.security.max_request_body_bytes
  const tooLarge = new Problem('malformed', `a request body may have at most ${maxBodyBytes} bytes`, { status: 413 })
  const handler = closing(front.handle, config.server.keepalive)
  return {
    host: config.server.bind,
    port: config.server.port,
    ...(tls && { tls }),
    maxBodyBytes,
    ...(admin && { maxBodyBytesOf: front.maxBodyBytesOf }),
    maxBufferedBytes: bodyMemoryFor(Math.max(2 * maxBodyBytes, admin?.maxBodyBytes ?? 0)),
    isTrustedProxy,
    admit: front.admit,
    accept: (address) => overload.acceptsConnection(address, options.openConnections()),
    busy: front.busy,
    keptHeaders: [
      ...KEPT_HEADERS,
      ...new Set([
        ...(config.crl.enabled || config.api.roots_path !== null ? CACHE_REQUEST_HEADERS : []),
        ...(admin ? ADMIN_REQUEST_HEADERS : []),
      ]),
      proxy.forwardedForHeader,
      proxy.forwardedProtoHeader,
    ],
    listHeaders: [proxy.forwardedForHeader],
    handler: recycling(handler, config.server, options.recycle),
    onError: front.onError,
    tooLarge: (http) => front.answerWith(tooLarge, http),
    badRequest: (http) => front.answerWith(AMBIGUOUS, http),
    onAborted: ({ path, peerAddress }) => log.debug({ path, peerAddress }, 'client went away'),
  }
}

/** Closes each connection after its reply when `server.keepalive` is 0. */
function closing(handler: HttpHandler, keepalive: number | null): HttpHandler {
  if (keepalive !== 0) return handler
  const close = (reply: HttpReply): HttpReply => ({ ...reply, closes: true })
  return (http) => {
    const reply = handler(http)
    return reply instanceof Promise ? reply.then(close) : close(reply)
  }
}

/** Counts requests towards `server.max_requests`. Jitter keeps threads from being replaced together. */
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
