/** One front: from an HTTP request to its reply, through routing, common headers, metrics and the access log. */

import type { Logger } from 'pino'
import type { AcmeApplication, AcmeExchange } from '../acme/application.ts'
import { isRefusing, PRESSURE_RETRY_AFTER } from '../domain/pool-pressure.ts'
import { requestIdFor } from '../http/common-headers.ts'
import { createForwarding, type ProxySettings } from '../http/forwarded.ts'
import type { Header } from '../http/header.ts'
import type { HttpReply, HttpRequest } from '../http/message.ts'
import { BatcherFull } from '../lib/batcher.ts'
import { type CrlDocument, crlReply } from '../ops/crl.ts'
import { type HealthReport, healthzReply, livezReply, readyzReply } from '../ops/health.ts'
import { METRICS_CONTENT_TYPE, type Metrics } from '../ops/metrics.ts'
import { Problem } from '../protocol/problem.ts'
import { ActorError } from '../runtime/errors.ts'
import type { InstanceBoard } from '../services/instance-board.ts'
import { isUnavailable } from '../store/database.ts'

export interface FrontOptions {
  acme: AcmeApplication
  board: Pick<InstanceBoard, 'admission'>
  metrics: Metrics
  log: Logger
  version: string
  proxy: ProxySettings
  scheme: 'http' | 'https'
  /** Of every response, by how the client came. */
  securityHeaders: Record<'http' | 'https', readonly Header[]>
  /** Undefined: metrics are off. */
  metricsPath(): string | undefined
  health(): Promise<HealthReport>
  /** Undefined: no CRL is published. */
  crl: FrontCrls | undefined
  exposition(): Promise<string>
}

export interface FrontCrls {
  /** The list of this name, or the default issuer's for the empty one; undefined where there is none. */
  find(name: string): CrlDocument | undefined
  maxAgeSeconds: number
}

/** Headers the fronts read; the adapter keeps no others. */
export const KEPT_HEADERS = ['content-type', 'x-request-id', 'accept', 'authorization'] as const

/** A full batcher drains within a second; a database that is away takes longer. */
const BUSY_RETRY_SECONDS = 1
const UNAVAILABLE_RETRY_SECONDS = 5
/** The first list of an issuer takes about a second. */
const NO_CRL_RETRY_SECONDS = 2

/** Probes must be answered above all when things go wrong. */
const HEALTH_PATHS = new Set(['/livez', '/healthz', '/readyz'])

interface Exchange extends AcmeExchange {
  http: HttpRequest
  address: string
  resource: string
  startedAt: number
}

export interface Front {
  handle(http: HttpRequest): HttpReply | Promise<HttpReply>
  onError(error: unknown, http: HttpRequest): HttpReply
  refuse(http: HttpRequest, problem: Problem): HttpReply
}

export function createFront(options: FrontOptions): Front {
  const { acme, metrics, log, securityHeaders } = options
  const effectiveClient = createForwarding(options.proxy, options.scheme)

  function begin(http: HttpRequest): Exchange {
    const client = effectiveClient(http)
    return {
      http,
      now: new Date(),
      requestId: requestIdFor(http.header('x-request-id')),
      address: client.address,
      scheme: client.scheme,
      resource: 'none',
      startedAt: performance.now(),
    }
  }

  function finish(reply: HttpReply, { http, requestId, address, resource, startedAt }: Exchange): HttpReply {
    const seconds = (performance.now() - startedAt) / 1000
    metrics.requests.answered(http.method, reply.status, resource, seconds)
    if (log.isLevelEnabled('info')) {
      const line = {
        requestId,
        address,
        method: http.method,
        path: http.path,
        status: reply.status,
        ms: Math.round(seconds * 1e4) / 10,
      }
      if (reply.status >= 500) log.error(line, 'request')
      else if (reply.status >= 400) log.warn(line, 'request')
      else log.info(line, 'request')
    }
    return reply
  }

  /** What a fault of the server looks like from outside: a sentence, an id to quote, and when to come back if that helps. */
  function faultProblem(error: unknown, exchange: Exchange): Problem {
    if (error instanceof Problem) return error
    if (error instanceof BatcherFull || error instanceof ActorError)
      return new Problem('serverInternal', 'the server is busy; try again soon', {
        status: 503,
        retryAfterSeconds: BUSY_RETRY_SECONDS,
      })
    log.error({ requestId: exchange.requestId, path: exchange.http.path, err: error }, 'request failed')
    if (isUnavailable(error))
      return new Problem('serverInternal', 'the database is not reachable; try again soon', {
        status: 503,
        retryAfterSeconds: UNAVAILABLE_RETRY_SECONDS,
      })
    return new Problem('serverInternal', `the server failed; quote request ${exchange.requestId} to its operator`)
  }

  function fault(error: unknown, exchange: Exchange): HttpReply {
    return finish(acme.problem(faultProblem(error, exchange), exchange), exchange)
  }

  function operations(exchange: Exchange): HttpReply | Promise<HttpReply> | undefined {
    const { http, requestId } = exchange
    if (http.method !== 'GET' && http.method !== 'HEAD') return undefined
    const headers = [['X-Request-ID', requestId] as const, ...securityHeaders[exchange.scheme]]
    switch (http.path) {
      case '/livez':
        return livezReply(options.version, headers)
      case '/healthz':
        return options.health().then((report) => healthzReply(report, headers))
      case '/readyz':
        return options.health().then((report) => readyzReply(report, headers))
      case options.metricsPath():
        return options.exposition().then((body) => ({
          status: 200,
          headers: [['Content-Type', METRICS_CONTENT_TYPE], ['Cache-Control', 'no-store'], ...headers],
          body,
        }))
      default:
        return undefined
    }
  }

  function crl(name: string, exchange: Exchange): HttpReply {
    const { http, requestId, now, scheme } = exchange
    if (http.method !== 'GET' && http.method !== 'HEAD') {
      const allow = ['GET', 'HEAD']
      return acme.problem(new Problem('malformed', 'a CRL is fetched with GET', { status: 405, allow }), exchange)
    }
    const found = options.crl?.find(name)
    if (found) {
      const headers = [['X-Request-ID', requestId] as const, ...securityHeaders[scheme]]
      return crlReply(http, found, options.crl?.maxAgeSeconds ?? 0, now, headers)
    }
    if (name !== '') return acme.notFound(exchange)
    const wait = { status: 503, retryAfterSeconds: NO_CRL_RETRY_SECONDS }
    return acme.problem(new Problem('serverInternal', 'the first CRL is still being built', wait), exchange)
  }

  /** Doc 1, connection pool pressure guard: everything but the health endpoints, before anything else is done for it. */
  function guard(exchange: Exchange): HttpReply | undefined {
    const tier = options.board.admission()
    if (!isRefusing(tier) || HEALTH_PATHS.has(exchange.http.path)) return undefined
    metrics.pressureRejections.inc({ tier })
    const retryAfterSeconds = PRESSURE_RETRY_AFTER[tier]
    const detail = `the server's database connections are under pressure; try again in ${retryAfterSeconds} seconds`
    return acme.problem(new Problem('serverInternal', detail, { status: 503, retryAfterSeconds }), exchange)
  }

  function answer(exchange: Exchange): HttpReply | Promise<HttpReply> {
    const refused = guard(exchange)
    if (refused) return refused
    const match = acme.match(exchange.http.path)
    if (match) {
      exchange.resource = match.resource
      if (match.resource === 'crl') return crl(match.id, exchange)
      return acme.handle(exchange.http, match, exchange)
    }
    return operations(exchange) ?? acme.notFound(exchange)
  }

  return {
    handle(http) {
      const exchange = begin(http)
      const reply = answer(exchange)
      if (!(reply instanceof Promise)) return finish(reply, exchange)
      return reply.then(
        (ready) => finish(ready, exchange),
        (error) => fault(error, exchange),
      )
    },
    onError: (error, http) => fault(error, begin(http)),
    refuse(http, problem) {
      const exchange = begin(http)
      return finish(acme.problem(problem, exchange), exchange)
    },
  }
}
