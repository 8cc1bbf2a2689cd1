/**
 * One front: from an HTTP request to its reply.
 *
 * 1. `#guard` refuses what needs a statement while the instance's database connections are under pressure.
 * 2. `#refuse` refuses while the thread is overloaded. Both need only the head of the request.
 * 3. `OverloadControl.run` starts the work, at once or after a wait.
 * 4. `#process` routes the request, runs its handler, and awaits the reply until `server.timeout`.
 * 5. `#finish` counts and logs the reply.
 * 6. `#deliver` charges a failure to its address. It delays the reply when that address has no
 *    budget left.
 */

import type { Logger } from 'pino'
import type { AcmeApplication } from '../acme/application.ts'
import type { AdminGate } from '../admin/admin-gate.ts'
import {
  createForwarding,
  type EffectiveClient,
  type HttpReply,
  type HttpRequest,
  type ProxySettings,
} from '../http/http-message.ts'
import { beginAtZero, type Metrics } from '../ops/metrics.ts'
import { ADMIN_FAILURE_COSTS, FAILURE_COSTS } from '../overload/abuse-budget.ts'
import type { OverloadControl } from '../overload/overload-control.ts'
import { isRefusing, PRESSURE_RETRY_AFTER, type SharedFlags } from '../services/shared-state.ts'
import { CommandDropped } from '../shared/lib/batcher.ts'
import type { Problem } from '../shared/protocol/problem.ts'
import { behindExternalPath, pathBelow } from '../shared/protocol/urls.ts'
import type { AnswerEvents } from './events.ts'
import {
  type Deadlines,
  Exchange,
  failureProblem,
  isProbe,
  type KnownErrors,
  knownProblem,
  MAX_URL_BYTES,
  overloadProblem,
  PRESSURE_PROBLEMS,
  URL_TOO_LONG,
} from './exchange.ts'
import { crlReplyTo, type OperationsOptions, operationsReply, rootsReplyTo } from './operations.ts'

export interface FrontOptions extends OperationsOptions {
  acme: AcmeApplication
  flags: Pick<SharedFlags, 'admission'>
  overload: OverloadControl<HttpReply>
  deadlines: Deadlines
  metrics: Metrics
  log: Logger
  proxy: ProxySettings
  /** Undefined when the Admin API is off or has a listener of its own. */
  admin: AdminGate | undefined
  scheme: 'http' | 'https'
  events: Pick<AnswerEvents, 'answered' | 'refusedByGuard'>
  errors: KnownErrors
  /** Path of `server.external_url`; health and metrics answer below it and at the root. */
  externalPath: string
}

/** Headers the fronts read; the adapter drops all others. */
export const KEPT_HEADERS = ['content-type', 'x-request-id', 'origin', 'authorization', 'user-agent'] as const

/** Used when the client disconnected before its reply was ready. */
const UNREAD: HttpReply = { status: 499, headers: [], body: '' }

/** Limits the logged path. */
const LOGGED_CHARACTERS = 1_000

/** Parsing so many bytes of a body costs as much as a signature. */
const BYTES_OF_A_SIGNATURE = 4_096

/** `admit`, `handle`, `onError` and `busy` are given to the HTTP server as they are. */
export class Front {
  readonly #options: FrontOptions
  readonly #acme: AcmeApplication
  readonly #overload: OverloadControl<HttpReply>
  readonly #effectiveClient: (http: HttpRequest) => EffectiveClient

  constructor(options: FrontOptions) {
    this.#options = options
    this.#acme = options.acme
    this.#overload = options.overload
    this.#effectiveClient = createForwarding(options.proxy, options.scheme)
    const tiers = Object.keys(PRESSURE_RETRY_AFTER)
    beginAtZero(options.metrics.pressureRejections, ...tiers.map((tier) => ({ tier })))
  }

  /** Checks the head of a request. @returns its refusal, or undefined when the request may continue */
  readonly admit = (http: HttpRequest): HttpReply | Promise<HttpReply> | undefined => {
    if (this.#isAdministration(http)) return undefined
    // The Admin API has database connections of its own.
    return (this.#isForAdmin(http.path) ? undefined : this.#guard(http)) ?? this.#refuse(http)
  }

  readonly handle = (http: HttpRequest): HttpReply | Promise<HttpReply> => {
    const exchange = this.#begin(http)
    if (this.#isAdministration(http)) return this.#process(exchange)
    return this.#overload.run(exchange, () => this.#process(exchange))
  }

  /**
   * Overload of ACME refuses no administrator: maintenance and revocation may be the cure.
   * Public paths, such as the console's files, count as probes, as does every request from an address without budget.
   */
  #isAdministration(http: HttpRequest): boolean {
    return (
      this.#isForAdmin(http.path) &&
      this.#options.admin?.isAdministrators(http.path) === true &&
      !this.#overload.budget.isExhausted(this.#effectiveClient(http).address)
    )
  }

  /** Each request asks this several times, so it looks at nothing but the beginning of the path. */
  #isForAdmin(path: string): boolean {
    const { admin, externalPath } = this.#options
    return admin !== undefined && pathBelow(behindExternalPath(path, externalPath), admin.basePath) !== undefined
  }

  /** The Admin API has a limit of its own. */
  readonly maxBodyBytesOf = (path: string): number | undefined =>
    this.#isForAdmin(path) ? this.#options.admin?.maxBodyBytes : undefined

  readonly onError = (error: unknown, http: HttpRequest): HttpReply => {
    return this.#fail(error, this.#begin(http))
  }

  /** Answers a request that the HTTP server rejected itself. */
  answerWith(problem: Problem, http: HttpRequest): HttpReply | Promise<HttpReply> {
    const exchange = this.#begin(http)
    const { admin, securityHeaders } = this.#options
    const reply =
      admin && this.#isForAdmin(http.path)
        ? admin.refuseBody(problem.status === 413, exchange.requestId, securityHeaders[exchange.scheme]).reply
        : this.#acme.problem(problem, exchange)
    return this.#deliver(this.#finish(reply, exchange), exchange)
  }

  /** Refuses a body because the buffer memory is full. */
  readonly busy = (http: HttpRequest): HttpReply => {
    this.#options.metrics.requestsShed.inc({ reason: 'body_memory' })
    return this.#unlogged(overloadProblem(this.#overload.retryAfterSeconds()), this.#begin(http))
  }

  #begin(http: HttpRequest): Exchange {
    return new Exchange({ http, localPath: this.#local(http) }, this.#effectiveClient(http), this.#acme.match)
  }

  #local({ path }: HttpRequest): string {
    return behindExternalPath(path, this.#options.externalPath)
  }

  #guard(http: HttpRequest): HttpReply | undefined {
    const tier = this.#options.flags.admission()
    if (!isRefusing(tier) || this.#needsNoStatement(http)) return undefined
    this.#options.metrics.pressureRejections.inc({ tier })
    this.#options.events.refusedByGuard()
    return this.#unlogged(PRESSURE_PROBLEMS[tier], this.#begin(http))
  }

  /** What is answered from memory waits for no connection (docs/decisions/probes.md). */
  #needsNoStatement(http: HttpRequest): boolean {
    const localPath = this.#local(http)
    return isProbe(localPath) || localPath === this.#options.metricsPath() || this.#acme.needsNoStatement(http)
  }

  #refuse(http: HttpRequest): HttpReply | Promise<HttpReply> | undefined {
    if (!this.#overload.admission.isWatching) return undefined
    let exchange: Exchange | undefined
    const begun = () => (exchange ??= this.#begin(http))
    const refusal = this.#overload.refuse({
      address: () => begun().address,
      resource: () => {
        const { localPath, isProbe } = begun()
        if (isProbe || localPath === this.#options.metricsPath() || this.#isForAdmin(http.path)) return 'probe'
        // An unknown path costs as much as the directory.
        return begun().target ?? 'directory'
      },
    })
    if (!refusal) return undefined
    const reply = this.#unlogged(overloadProblem(refusal.retryAfterSeconds), begun())
    if (!refusal.isLate) return reply
    http.dropBody()
    return this.#overload.delayRefusal(reply) ?? { ...reply, closes: true }
  }

  /** Refusals come in thousands: each is counted, but the log gets one line for all of them. */
  #unlogged(refusal: Problem, exchange: Exchange): HttpReply {
    this.#options.metrics.requests.refused(exchange.http.method, refusal.status)
    return this.#refusal(refusal, exchange)
  }

  /** The error has the form of the API that was called. */
  #refusal(problem: Problem, exchange: Exchange): HttpReply {
    const { admin, securityHeaders } = this.#options
    if (!admin || !this.#isForAdmin(exchange.http.path)) return this.#acme.problem(problem, exchange)
    return admin.refuseProblem(problem, exchange.requestId, securityHeaders[exchange.scheme]).reply
  }

  #process(exchange: Exchange): HttpReply | Promise<HttpReply> {
    if (exchange.isGone) return UNREAD
    try {
      const reply = this.#route(exchange)
      if (reply instanceof Promise) return this.#finishLater(reply, exchange)
      return this.#deliver(this.#finish(reply, exchange), exchange)
    } catch (error) {
      return this.#fail(error, exchange)
    }
  }

  #route(exchange: Exchange): HttpReply | Promise<HttpReply> {
    const { http } = exchange
    if (http.path.length + http.query.length > MAX_URL_BYTES) return this.#refusal(URL_TOO_LONG, exchange)
    if (this.#options.admin && this.#isForAdmin(http.path)) return this.#administer(exchange, this.#options.admin)
    const { match } = exchange
    if (!match) return operationsReply(exchange, this.#options) ?? this.#acme.unmatched(http, exchange)
    exchange.resource = match.resource
    if (match.resource === 'crl') return crlReplyTo(match.id, exchange, this.#options, this.#acme)
    if (match.resource === 'roots') return rootsReplyTo(exchange, this.#options, this.#acme)
    return this.#acme.handle(http, match, exchange)
  }

  async #administer(exchange: Exchange, admin: AdminGate): Promise<HttpReply> {
    const fixed = this.#options.securityHeaders[exchange.scheme]
    const { reply, resource } = await admin.handle(exchange, fixed)
    exchange.resource = resource
    return reply
  }

  #finishLater(reply: Promise<HttpReply>, exchange: Exchange): Promise<HttpReply> {
    const { resource, startedAt } = exchange
    this.#overload.admission.began(resource)
    return this.#options.deadlines.within(reply, startedAt).then(
      (ready) => {
        this.#overload.admission.ended(resource)
        return this.#deliver(this.#finish(ready, exchange), exchange)
      },
      (error) => {
        this.#overload.admission.ended(resource)
        return error instanceof CommandDropped ? UNREAD : this.#fail(error, exchange)
      },
    )
  }

  #fail(error: unknown, exchange: Exchange): HttpReply {
    const { requestId, http } = exchange
    let problem = knownProblem(error, this.#options.errors)
    if (!problem) {
      this.#options.log.error({ requestId, path: http.path, err: error }, 'request failed')
      problem = failureProblem(error, requestId, this.#options.errors)
    }
    return this.#finish(this.#refusal(problem, exchange), exchange)
  }

  #finish(reply: HttpReply, exchange: Exchange): HttpReply {
    const { metrics, log, events } = this.#options
    const { http, requestId, address, accountId, orderId, resource, startedAt } = exchange
    events.answered(exchange, reply.status)
    const seconds = (performance.now() - startedAt) / 1000
    metrics.requests.answered(http.method, reply.status, resource, seconds)
    // An address without budget causes thousands of these replies; the log has one line for all of them.
    if (reply.status === 429 && this.#overload.budget.isExhausted(address)) return reply
    const level = reply.status >= 500 ? 'error' : reply.status >= 400 ? 'warn' : 'info'
    if (log.isLevelEnabled(level)) {
      const line = {
        requestId,
        address,
        accountId,
        orderId,
        method: http.method,
        path: http.path.slice(0, LOGGED_CHARACTERS),
        status: reply.status,
        ms: Math.round(seconds * 1e4) / 10,
      }
      log[level](line, 'request')
    }
    return reply
  }

  /** Delays failures of an address without budget, so that it cannot retry at once. */
  #deliver(reply: HttpReply, { address, http }: Exchange): HttpReply | Promise<HttpReply> {
    if (reply.status < 400 || reply.status >= 500) return reply
    const cost = (this.#isForAdmin(http.path) ? ADMIN_FAILURE_COSTS : FAILURE_COSTS)[reply.status]
    if (cost !== undefined) this.#overload.budget.charge(address, cost + http.body.length / BYTES_OF_A_SIGNATURE)
    if (!this.#overload.budget.isExhausted(address)) return reply
    http.dropBody()
    return this.#overload.delayFailure(reply) ?? { ...reply, closes: true }
  }
}
