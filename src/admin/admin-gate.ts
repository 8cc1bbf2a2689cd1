/**
 * The Admin API at an HTTP server: a front thread, which hands requests over to the admin thread, or a port of its own
 * (`admin_api.listen`).
 */

import type { Logger } from 'pino'
import { AdminError } from '../domain/admin-error.ts'
import { bodyMemoryFor } from '../http/body-memory.ts'
import {
  createForwarding,
  createSecurityHeaders,
  type Header,
  type HttpReply,
  type HttpRequest,
  type HttpServer,
  type ProxySettings,
  requestIdFor,
  trustedProxies,
} from '../http/http-message.ts'
import { listen } from '../http/uws.ts'
import type { Metrics } from '../ops/metrics.ts'
import { AbuseBudget, ADMIN_FAILURE_COSTS, FAILURE_DELAY_MS } from '../overload/abuse-budget.ts'
import { TICK_MS } from '../overload/overload.ts'
import { createConnectionGate } from '../overload/overload-control.ts'
import { DelayedReplies } from '../overload/waiting.ts'
import { bufferOver } from '../shared/lib/shared-memory.ts'
import type { Problem } from '../shared/protocol/problem.ts'
import { behindExternalPath, pathBelow } from '../shared/protocol/urls.ts'
import { asAdminError, errorReply } from './admin-errors.ts'
import type { AdminReply, AdminRequest } from './admin-message.ts'
import { segmentsOf } from './admin-router.ts'

/** The application, in this thread or another. */
export interface AdminPort {
  request(request: AdminRequest): Promise<AdminReply>
  next(stream: string): Promise<string | undefined>
  cancel(stream: string): void
}

interface AdminGateOptions {
  port: AdminPort
  /** `admin_api.base_path`, without a slash at its end. */
  basePath: string
  /** Path of the external URL. */
  externalPath: string
  maxBodyBytes: number
}

/** Headers that only the Admin API reads; for the HTTP server. */
export const ADMIN_REQUEST_HEADERS = ['accept-encoding', 'if-none-match', 'user-agent', 'approval-reason'] as const

/** Anyone gets these with 200, at no cost to his address: the name, the description, the console's files. */
const OPEN: readonly unknown[] = [undefined, 'openapi.json', 'console']

/** One request, with the client as the proxies name it. */
interface AdminVisit {
  http: HttpRequest
  requestId: string
  address: string
}

type AdminTarget = Pick<AdminRequest, 'method' | 'path' | 'query'>

interface GateReply {
  reply: HttpReply
  /** Name of the resource in the metrics. */
  resource: string
}

export class AdminGate {
  readonly basePath: string
  readonly maxBodyBytes: number
  readonly #options: AdminGateOptions

  constructor(options: AdminGateOptions) {
    this.#options = options
    this.basePath = options.basePath
    this.maxBodyBytes = options.maxBodyBytes
  }

  /** Whether a path is the Admin API's. */
  owns(path: string): boolean {
    return this.#below(path) !== undefined
  }

  /** Whether a path is for administrators: others are refused there, which costs their address. */
  isAdministrators(path: string): boolean {
    const below = this.#below(path)
    return below !== undefined && !OPEN.includes(segmentsOf(below)[1])
  }

  /** The path below the base path; undefined for a path of others. */
  #below(path: string): string | undefined {
    return pathBelow(behindExternalPath(path, this.#options.externalPath), this.basePath)
  }

  /** @param fixed headers of every reply */
  async handle(visit: AdminVisit, fixed: readonly Header[]): Promise<GateReply> {
    const { method, query, path } = visit.http
    const answered = await this.#answer(visit, { method, query, path: this.#below(path) ?? '' })
    return this.#finish(answered, visit.requestId, fixed)
  }

  /**
   * For a resource of others that asks for a bearer token, too.
   * @returns undefined for a token that may list users, which everybody with the permission `read` may
   */
  async refuse(visit: AdminVisit, fixed: readonly Header[]): Promise<HttpReply | undefined> {
    const answered = await this.#answer(visit, { method: 'GET', path: '/users', query: 'limit=1' })
    return answered.status === 200 ? undefined : this.#finish(answered, visit.requestId, fixed).reply
  }

  /** Another part's refusal, in the form of the Admin API. */
  refuseProblem(problem: Problem, requestId: string, fixed: readonly Header[]): GateReply {
    return this.refuseWith(asAdminError(problem), requestId, fixed)
  }

  refuseWith(error: AdminError, requestId: string, fixed: readonly Header[]): GateReply {
    return this.#finish(errorReply(error, requestId, 'none'), requestId, fixed)
  }

  /** The HTTP server refuses a body itself: it is too large, or its length or Host is ambiguous. */
  refuseBody(isTooLarge: boolean, requestId: string, fixed: readonly Header[]): GateReply {
    const error = isTooLarge
      ? new AdminError('too_large', `a body may have at most ${this.maxBodyBytes} bytes`)
      : new AdminError('invalid_request', 'the Host or the length of the body is ambiguous')
    return this.refuseWith(error, requestId, fixed)
  }

  #finish(answered: AdminReply, requestId: string, fixed: readonly Header[]): GateReply {
    const { status, headers, body, octets, stream, resource } = answered
    const own = new Set(headers.map(([name]) => name))
    const others = ([['Cache-Control', 'no-store'], ...fixed] as const).filter(([name]) => !own.has(name))
    return {
      resource,
      reply: {
        status,
        headers: [['X-Request-ID', requestId], ...headers, ...others],
        body: octets ? bufferOver(octets) : body,
        ...(stream !== undefined && { rest: this.#rest(stream) }),
      },
    }
  }

  async #answer({ http, requestId, address }: AdminVisit, target: AdminTarget): Promise<AdminReply> {
    const { port } = this.#options
    try {
      return await port.request({
        requestId,
        address,
        ...target,
        authorization: http.header('authorization'),
        contentType: http.header('content-type'),
        acceptEncoding: http.header('accept-encoding'),
        ifNoneMatch: http.header('if-none-match'),
        userAgent: http.header('user-agent'),
        approvalReason: http.header('approval-reason'),
        body: http.body,
      })
    } catch (cause) {
      const error = new AdminError('unavailable', 'the Admin API is starting or too busy; try again', {
        cause,
        retryAfterSeconds: 2,
      })
      return errorReply(error, requestId, 'none')
    }
  }

  #rest(stream: string) {
    const { port } = this.#options
    return { next: () => port.next(stream), cancel: () => port.cancel(stream) }
  }
}

export type AdminServer = Pick<HttpServer, 'drain' | 'close'>

interface AdminListenerOptions {
  gate: AdminGate
  bind: string
  port: number
  tls: { certPath: string; keyPath: string } | undefined
  proxy: ProxySettings
  hstsMaxAgeSeconds: number
  /** `server.overload.enabled`: failed requests are charged to their addresses, as on the public port. */
  isGuarded: boolean
  metrics: Metrics
  log: Logger
}

/** A network of administrators and their tools. */
const MOST_CONNECTIONS = 1_024

const MEMORY_FULL = new AdminError('unavailable', 'too many large bodies at once; try again', { retryAfterSeconds: 1 })

export function listenForAdministrators(options: AdminListenerOptions): AdminServer {
  const { gate, bind, port, tls, proxy, metrics, log } = options
  const scheme = tls ? 'https' : 'http'
  const clientOf = createForwarding(proxy, scheme)
  const fixed = createSecurityHeaders(options.hstsMaxAgeSeconds)
  const { budget, delivered, release } = guardAgainstFailures(options)

  async function handle(http: HttpRequest): Promise<HttpReply> {
    const startedAt = performance.now()
    const requestId = requestIdFor(http.header('x-request-id'))
    const client = clientOf(http)
    const { reply, resource } = gate.owns(http.path)
      ? await gate.handle({ http, requestId, address: client.address }, fixed[client.scheme])
      : refuse(new AdminError('not_found', 'there is no such resource'), http)
    const seconds = (performance.now() - startedAt) / 1000
    metrics.requests.answered(http.method, reply.status, resource, seconds)
    const line = { requestId, address: client.address, method: http.method, path: http.path, status: reply.status }
    log[reply.status >= 500 ? 'error' : 'info']({ ...line, ms: Math.round(seconds * 1e4) / 10 }, 'request')
    return delivered(reply, client.address)
  }

  const refuse = (error: AdminError, http: HttpRequest) =>
    gate.refuseWith(error, requestIdFor(http.header('x-request-id')), fixed[clientOf(http).scheme])

  function refuseBody(isTooLarge: boolean, http: HttpRequest): HttpReply {
    metrics.requests.refused(http.method, isTooLarge ? 413 : 400)
    return gate.refuseBody(isTooLarge, requestIdFor(http.header('x-request-id')), fixed[clientOf(http).scheme]).reply
  }

  const server = listen({
    host: bind,
    port,
    ...(tls && { tls }),
    maxBodyBytes: gate.maxBodyBytes,
    maxBufferedBytes: bodyMemoryFor(gate.maxBodyBytes),
    isTrustedProxy: trustedProxies(proxy),
    keptHeaders: [
      'content-type',
      'x-request-id',
      'authorization',
      ...ADMIN_REQUEST_HEADERS,
      proxy.forwardedForHeader,
      proxy.forwardedProtoHeader,
    ],
    listHeaders: [proxy.forwardedForHeader],
    accept: createConnectionGate({
      maxConnections: MOST_CONNECTIONS,
      isTrustedProxy: trustedProxies(proxy),
      isBusy: () => false,
      isOverloaded: () => false,
      isUnwelcome: (address) => budget.isExhausted(address),
    }),
    handler: handle,
    onError(error, http) {
      log.error({ err: error }, 'admin request failed')
      return refuse(new AdminError('internal', 'the server failed'), http).reply
    },
    busy: (http) => refuse(MEMORY_FULL, http).reply,
    tooLarge: (http) => refuseBody(true, http),
    badRequest: (http) => refuseBody(false, http),
  })
  return {
    close: () => server.close(),
    drain(timeoutMs) {
      release()
      return server.drain(timeoutMs)
    },
  }
}

/** This port has a budget of failed requests as large as the fronts have. */
function guardAgainstFailures({ isGuarded, log }: AdminListenerOptions) {
  const budget = new AbuseBudget({
    isEnabled: isGuarded,
    events: {
      exhausted: (address) =>
        log.warn({ event: 'address_held_back', address }, 'too many requests from an address fail; it is held back'),
      refused: () => undefined,
    },
  })
  const late = new DelayedReplies<HttpReply>({ delayMs: FAILURE_DELAY_MS, capacity: MOST_CONNECTIONS })
  setInterval(() => late.release(performance.now()), TICK_MS).unref()
  return {
    budget,
    delivered(reply: HttpReply, address: string): HttpReply | Promise<HttpReply> {
      if (reply.status < 400 || reply.status >= 500) return reply
      const cost = ADMIN_FAILURE_COSTS[reply.status]
      if (cost !== undefined) budget.charge(address, cost)
      if (!budget.isExhausted(address)) return reply
      return late.delay(reply, performance.now()) ?? { ...reply, closes: true }
    },
    release: () => late.release(),
  }
}
