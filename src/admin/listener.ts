/** A port of its own for the Admin API (`admin_api.listen`). */

import type { Logger } from 'pino'
import { AdminError } from '../domain/admin-error.ts'
import { bodyMemoryFor } from '../http/body-memory.ts'
import {
  createForwarding,
  createSecurityHeaders,
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
import { ADMIN_REQUEST_HEADERS, type AdminGate } from './admin-gate.ts'

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
