/** A port of its own for the Admin API (`admin_api.listen`). */

import type { Logger } from 'pino'
import { AdminError } from '../domain/admin-error.ts'
import { bodyMemoryFor } from '../http/body-memory.ts'
import { createForwarding, type ProxySettings, trustedProxies } from '../http/client-address.ts'
import type { HttpReply, HttpRequest } from '../http/message.ts'
import { createSecurityHeaders, requestIdFor } from '../http/message.ts'
import type { HttpServer } from '../http/server.ts'
import { listen } from '../http/uws.ts'
import type { Metrics } from '../ops/metrics.ts'
import { ADMIN_REQUEST_HEADERS, type AdminGate } from './gate.ts'

export interface AdminListenerOptions {
  gate: AdminGate
  bind: string
  port: number
  tls: { certPath: string; keyPath: string } | undefined
  proxy: ProxySettings
  hstsMaxAgeSeconds: number
  metrics: Metrics
  log: Logger
}

/** A network of administrators and their tools. */
const MOST_CONNECTIONS = 1_024

const MEMORY_FULL = new AdminError('unavailable', 'too many large bodies at once; try again', { retryAfterSeconds: 1 })

export function listenForAdministrators(options: AdminListenerOptions): HttpServer {
  const { gate, bind, port, tls, proxy, metrics, log } = options
  const scheme = tls ? 'https' : 'http'
  const clientOf = createForwarding(proxy, scheme)
  const fixed = createSecurityHeaders(options.hstsMaxAgeSeconds)

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
    return reply
  }

  const refuse = (error: AdminError, http: HttpRequest) =>
    gate.refuseWith(error, requestIdFor(http.header('x-request-id')), fixed[clientOf(http).scheme])

  function refuseBody(isTooLarge: boolean, http: HttpRequest): HttpReply {
    metrics.requests.refused(http.method, isTooLarge ? 413 : 400)
    return gate.refuseBody(isTooLarge, requestIdFor(http.header('x-request-id')), fixed[clientOf(http).scheme]).reply
  }

  return listen({
    ...{ host: bind, port, ...(tls && { tls }) },
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
    accept: (_address, openConnections) => openConnections <= MOST_CONNECTIONS,
    handler: handle,
    onError(error, http) {
      log.error({ err: error }, 'admin request failed')
      return refuse(new AdminError('internal', 'the server failed'), http).reply
    },
    busy: (http) => refuse(MEMORY_FULL, http).reply,
    tooLarge: (http) => refuseBody(true, http),
    badRequest: (http) => refuseBody(false, http),
  })
}
