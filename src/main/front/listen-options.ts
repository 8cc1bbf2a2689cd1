/** How a front thread listens: its limits, its headers, and its handler. */

import { ADMIN_REQUEST_HEADERS } from '../../admin/gate.ts'
import { type Front, type FrontOptions, KEPT_HEADERS } from '../../front/front.ts'
import { CRL_REQUEST_HEADERS } from '../../front/operations.ts'
import { bodyMemoryFor } from '../../http/body-memory.ts'
import type { HttpHandler, HttpReply } from '../../http/message.ts'
import type { ListenOptions } from '../../http/server.ts'
import { Problem } from '../../shared/protocol/problem.ts'
import type { FrontThreadData } from '../messages.ts'

export interface FrontListenOptions extends Pick<FrontOptions, 'overload' | 'proxy' | 'log' | 'admin'> {
  config: FrontThreadData['config']
  tls: FrontThreadData['tls']
  front: Front
  isTrustedProxy(address: string): boolean
  /** Of all ports of the thread. */
  openConnections(): number
  /** `server.max_requests` is reached. */
  recycle(): void
}

const AMBIGUOUS = new Problem(
  'malformed',
  'it is not certain which host is meant or where the body ends: give one valid Host and one Content-Length, or fewer chunks',
)

export function frontListenOptions(options: FrontListenOptions): ListenOptions {
  const { config, tls, front, overload, proxy, isTrustedProxy, log, admin } = options
  const maxBodyBytes = config.security.max_request_body_bytes
  const tooLarge = new Problem('malformed', `a request body may have at most ${maxBodyBytes} bytes`, { status: 413 })
  const handler = closing(front.handle, config.server.keepalive)
  return {
    host: config.server.bind,
    port: config.server.port,
    ...(tls && { tls }),
    maxBodyBytes,
    ...(admin && { maxBodyBytesOf: (path) => (admin.owns(path) ? admin.maxBodyBytes : undefined) }),
    maxBufferedBytes: bodyMemoryFor(Math.max(2 * maxBodyBytes, admin?.maxBodyBytes ?? 0)),
    isTrustedProxy,
    admit: front.admit,
    accept: (address) => overload.acceptsConnection(address, options.openConnections()),
    busy: front.busy,
    keptHeaders: [
      ...KEPT_HEADERS,
      ...new Set([...(config.crl.enabled ? CRL_REQUEST_HEADERS : []), ...(admin ? ADMIN_REQUEST_HEADERS : [])]),
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

/**
 * Counts requests towards `server.max_requests`. Jitter keeps threads from being replaced together.
 */
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
