/** One front: from an HTTP request to its reply, through routing, common headers, metrics and the access log. */

import type { Logger } from 'pino'
import type { AcmeApplication, AcmeExchange } from '../acme/application.ts'
import { isRefusing, PRESSURE_RETRY_AFTER, type RefusingTier } from '../domain/pool-pressure.ts'
import { countedAddress } from '../domain/rate-limit.ts'
import { requestIdFor } from '../http/common-headers.ts'
import { createForwarding, type ProxySettings } from '../http/forwarded.ts'
import type { Header } from '../http/header.ts'
import type { HttpReply, HttpRequest } from '../http/message.ts'
import { type CrlDocument, crlReply } from '../ops/crl.ts'
import { type HealthReport, healthzReply, livezReply, readyzReply } from '../ops/health.ts'
import { beginAtZero, METRICS_CONTENT_TYPE, type Metrics } from '../ops/metrics.ts'
import { type Admission, MEASURED } from '../overload/admission.ts'
import type { HoldingPen } from '../overload/holding-pen.ts'
import { beginningsBeside, retryAfterSeconds, WORK_CLASS } from '../overload/overload.ts'
import type { Patience } from '../overload/patience.ts'
import { aTenth, YieldingQueue } from '../overload/yielding-queue.ts'
import { ActorError } from '../runtime/errors.ts'
import type { InstanceBoard } from '../services/instance-board.ts'
import { BatcherFull } from '../shared/lib/batcher.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { isUnavailable } from '../store/database.ts'

export interface FrontOptions {
  acme: AcmeApplication
  board: Pick<InstanceBoard, 'admission'>
  admission: Admission
  patience: Pick<Patience, 'isExhausted' | 'wasted'>
  /** Where refusals of an overloaded thread wait that are not to be prompt. */
  late: HoldingPen<HttpReply>
  /** Where answers to an address wait that has wasted too much. */
  heldBack: HoldingPen<HttpReply>
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

/** To a client that has gone away while its request waited. */
const UNREAD: HttpReply = { status: 499, headers: [], body: '' }

/** What a refusal of the request itself has cost, in signatures; those that fail are charged where they do. */
const WASTE: Readonly<Record<number, number>> = { 400: 0.1, 404: 0.1, 405: 0.1, 413: 1, 415: 0.1 }

interface Exchange extends AcmeExchange {
  http: HttpRequest
  address: string
  resource: string
  startedAt: number
}

export interface Front {
  /** @returns the refusal of a request that is turned away by its head. */
  admit(http: HttpRequest): HttpReply | Promise<HttpReply> | undefined
  handle(http: HttpRequest): HttpReply | Promise<HttpReply>
  onError(error: unknown, http: HttpRequest): HttpReply
  refuse(http: HttpRequest, problem: Problem): HttpReply | Promise<HttpReply>
  /** The refusal of a body that there is no memory for just now. */
  busy(http: HttpRequest): HttpReply
}

function busy(detail: string, retryAfterSeconds: number): Problem {
  return new Problem('serverInternal', detail, { status: 503, retryAfterSeconds })
}

export function createFront(options: FrontOptions): Front {
  const { acme, board, admission, patience, late, heldBack, metrics, log, securityHeaders } = options
  const effectiveClient = createForwarding(options.proxy, options.scheme)

  beginAtZero(metrics.pressureRejections, ...Object.keys(PRESSURE_RETRY_AFTER).map((tier) => ({ tier })))
  const pressureProblems = Object.fromEntries(
    Object.entries(PRESSURE_RETRY_AFTER).map(([tier, seconds]) => [
      tier,
      busy(`the server's database connections are under pressure; try again in ${seconds} seconds`, seconds),
    ]),
  ) as Record<RefusingTier, Problem>

  /** One for each Retry-After: an error costs more to make than the reply that it becomes. */
  const overloadProblems: Problem[] = []
  function overloadProblem(seconds: number): Problem {
    overloadProblems[seconds] ??= busy(
      `the server has more to do than it can; try again in ${seconds} seconds`,
      seconds,
    )
    return overloadProblems[seconds]
  }

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
    // Those come in thousands, and a line has said so.
    const isNoise = reply.status === 429 && patience.isExhausted(address)
    const level = reply.status >= 500 ? 'error' : reply.status >= 400 ? 'warn' : 'info'
    if (!isNoise && log.isLevelEnabled(level)) {
      const line = {
        requestId,
        address,
        method: http.method,
        path: http.path,
        status: reply.status,
        ms: Math.round(seconds * 1e4) / 10,
      }
      log[level](line, 'request')
    }
    return reply
  }

  /** What a fault of the server looks like from outside: a sentence, an id to quote, and when to come back if that helps. */
  function faultProblem(error: unknown, exchange: Exchange): Problem {
    if (error instanceof Problem) return error
    if (error instanceof BatcherFull || error instanceof ActorError)
      return busy('the server is busy; try again soon', BUSY_RETRY_SECONDS)
    log.error({ requestId: exchange.requestId, path: exchange.http.path, err: error }, 'request failed')
    if (isUnavailable(error)) return busy('the database is not reachable; try again soon', UNAVAILABLE_RETRY_SECONDS)
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
  function guard(http: HttpRequest): HttpReply | undefined {
    const tier = board.admission()
    if (!isRefusing(tier) || HEALTH_PATHS.has(http.path)) return undefined
    metrics.pressureRejections.inc({ tier })
    return unlogged(pressureProblems[tier], begin(http))
  }

  /** Refusals of a kind come in thousands: they are counted by their reason, and the log has a line for all of them. */
  function unlogged(refusal: Problem, exchange: Exchange): HttpReply {
    metrics.requests.refused(exchange.http.method, refusal.status)
    return acme.problem(refusal, exchange)
  }

  function turnAway(http: HttpRequest): HttpReply | Promise<HttpReply> | undefined {
    if (!admission.isWatching) return undefined
    if (!admission.isOverloaded) {
      if (admission.isSample()) admission.saw(effectiveClient(http).address)
      return undefined
    }
    if (HEALTH_PATHS.has(http.path) || http.path === options.metricsPath()) return undefined
    const exchange = begin(http)
    // What is not there costs as much as the directory.
    const refusal = admission.judge(acme.match(http.path)?.resource ?? 'directory', exchange.address)
    if (!refusal) return undefined
    const reply = unlogged(overloadProblem(refusal.retryAfterSeconds), exchange)
    return refusal.isLate ? held(late, reply, http) : reply
  }

  /** Who cannot be kept waiting any more, since too many are, has to connect anew. */
  function held(pen: HoldingPen<HttpReply>, reply: HttpReply, http: HttpRequest): HttpReply | Promise<HttpReply> {
    http.dropBody()
    return pen.hold(reply, performance.now()) ?? { ...reply, closes: true }
  }

  /** Refusals to an address that asks for little else go out late: it cannot ask again before it has its answer. */
  function deliver(reply: HttpReply, { address, http }: Exchange): HttpReply | Promise<HttpReply> {
    if (reply.status < 400 || reply.status >= 500) return reply
    const waste = WASTE[reply.status]
    if (waste !== undefined) patience.wasted(address, waste)
    return patience.isExhausted(address) ? held(heldBack, reply, http) : reply
  }

  function finishLater(reply: Promise<HttpReply>, exchange: Exchange): Promise<HttpReply> {
    const isMeasured = MEASURED.has(exchange.resource)
    if (isMeasured) admission.began()
    return reply.then(
      (ready) => {
        if (isMeasured) admission.ended()
        return deliver(finish(ready, exchange), exchange)
      },
      (error) => {
        if (isMeasured) admission.ended()
        return fault(error, exchange)
      },
    )
  }

  function answer(exchange: Exchange): HttpReply | Promise<HttpReply> {
    const match = acme.match(exchange.http.path)
    if (match) {
      exchange.resource = match.resource
      if (match.resource === 'crl') return crl(match.id, exchange)
      return acme.handle(exchange.http, match, exchange)
    }
    return operations(exchange) ?? acme.notFound(exchange)
  }

  function process(exchange: Exchange): HttpReply | Promise<HttpReply> {
    const reply = answer(exchange)
    return reply instanceof Promise ? finishLater(reply, exchange) : deliver(finish(reply, exchange), exchange)
  }

  const yields = ({ address, http }: Exchange) =>
    (patience.isExhausted(address) || admission.yields(address)) && !HEALTH_PATHS.has(http.path)

  const yielding = new YieldingQueue(aTenth)
  /** Requests that went on since the last beginnings were let in, or since the first of them waits. */
  let goneOn = 0
  const beginnings = new YieldingQueue(() => {
    const room = beginningsBeside(goneOn)
    goneOn = 0
    return room
  })

  function inTurn(
    queue: YieldingQueue,
    owner: string,
    exchange: Exchange,
    work: (exchange: Exchange) => HttpReply | Promise<HttpReply>,
  ): Promise<HttpReply> {
    return new Promise((resolve) =>
      queue.push(owner, () => {
        try {
          resolve(work(exchange))
        } catch (error) {
          resolve(fault(error, exchange))
        }
      }),
    )
  }

  const beginsSomething = ({ http }: Exchange) => {
    const resource = acme.match(http.path)?.resource
    return resource !== undefined && WORK_CLASS[resource] === 'beginning'
  }

  function enter(exchange: Exchange): HttpReply | Promise<HttpReply> {
    if (exchange.http.isOver) return UNREAD
    if (!admission.hasQueue || !beginsSomething(exchange)) {
      goneOn++
      return process(exchange)
    }
    if (beginnings.isEmpty) goneOn = 0
    admission.held()
    // First come, first served: the wait that refusals are judged by is then that of everybody, also of those who share an address.
    return inTurn(beginnings, '', exchange, letIn)
  }

  function letIn(exchange: Exchange): HttpReply | Promise<HttpReply> {
    admission.letIn()
    return exchange.http.isOver ? UNREAD : process(exchange)
  }

  return {
    admit: (http) => guard(http) ?? turnAway(http),
    handle(http) {
      const exchange = begin(http)
      return yields(exchange) ? inTurn(yielding, countedAddress(exchange.address), exchange, enter) : enter(exchange)
    },
    onError: (error, http) => fault(error, begin(http)),
    refuse(http, problem) {
      const exchange = begin(http)
      return deliver(finish(acme.problem(problem, exchange), exchange), exchange)
    },
    busy(http) {
      metrics.requestsShed.inc({ reason: 'body_memory' })
      return unlogged(overloadProblem(retryAfterSeconds(0, Math.random())), begin(http))
    },
  }
}
