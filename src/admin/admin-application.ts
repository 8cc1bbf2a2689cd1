/**
 * The Admin API: from a request value to a reply value.
 *
 * Order of the checks: route, token, role, form of the body, parameters, query, body. Then the
 * handler runs. A stranger without a token learns of a path only that it exists. Callers who are not known yet take turns.
 */

import type { Logger } from 'pino'
import { AdminError } from '../domain/admin-error.ts'
import type { Actor, Role } from '../domain/administrator.ts'
import type { SentValues } from '../domain/approval.ts'
import type { Header } from '../http/http-message.ts'
import { FairQueue } from '../shared/lib/fair-queue.ts'
import { countedAddress } from '../shared/lib/ip-address.ts'
import { printable } from '../shared/lib/terminal.ts'
import { isBusy } from '../store/slonik.ts'
import type { Answer, AnyEndpoint } from './admin-endpoint.ts'
import { errorReply } from './admin-errors.ts'
import type { AdminReply, AdminRequest } from './admin-message.ts'
import { Router, readBody, readReason, readRequest, requireBody } from './admin-router.ts'
import { APPROVAL_REPLY, approvalBody } from './approvals/approval-store.ts'
import { emergencyPermit } from './approvals/approvals.ts'
import type { AdminContext } from './context.ts'
import type { ReplyStreams } from './streams.ts'
import type { SignedIn } from './users/sign-in.ts'

interface AdminApplicationOptions {
  endpoints: readonly AnyEndpoint[]
  context: AdminContext
  streams: ReplyStreams
  /** The absolute URL of the base path, for Link headers. */
  baseUrl: string
  log: Pick<Logger, 'warn' | 'error'>
  /** In place of a bearer token, for the command line. */
  operator?: Actor
  /** Why the operator does alone what another person should approve. */
  emergency?: string | undefined
}

/** More at once are refused: each may hold a database connection. */
const MOST_AT_ONCE = 64
const BUSY_RETRY_SECONDS = 1
const DATABASE_RETRY_SECONDS = 5
const MOST_OF_A_USER_AGENT = 200
/** Requests of one user, so that one user cannot keep the others out. */
const MOST_OF_ONE = 24
/**
 * Turns of callers that are not known yet, by address. As many passwords may wait for their hash (`admin/users/passwords.ts`).
 * A console asks for ten things at once, a hundred are a flood.
 */
const OF_STRANGERS = { atOnce: 16, atOnceOfOne: 4, mostOfOne: 64, what: 'requests from this address' }
/** Each may wait ten seconds for a slow provider, and a password must not wait for that. */
const OF_PROVIDER = { atOnce: 16, atOnceOfOne: 4, mostOfOne: 16, what: 'sign-ins from this address' }

export class AdminApplication {
  readonly #options: AdminApplicationOptions
  readonly #router: Router
  #running = 0
  /** Requests whose token is being checked. */
  readonly #unknown = new Turns(OF_STRANGERS)
  /** Turns of requests that need no token, such as logins. */
  readonly #strangers = new Turns(OF_STRANGERS)
  /** Turns of requests that wait for the OpenID Connect provider. */
  readonly #ofProvider = new Turns(OF_PROVIDER)
  #working = 0
  /** By user. */
  readonly #known = new Map<string, number>()

  constructor(options: AdminApplicationOptions) {
    this.#options = options
    this.#router = new Router(options.endpoints)
  }

  get running(): number {
    return this.#running
  }

  async handle(request: AdminRequest): Promise<AdminReply> {
    const { requestId } = request
    let resource = 'none'
    this.#running++
    try {
      const { endpoint, params } = this.#router.match(request.method, request.path)
      resource = `admin ${endpoint.path}`
      const author =
        endpoint.roles === 'none'
          ? undefined
          : await this.#unknown.run(countedAddress(request.address), () => this.#authorize(endpoint, request))
      requireBody(endpoint, request)
      return await this.#inTurn(endpoint, author, request, async () => {
        const sent = { params, query: request.query, body: readBody(endpoint, request) }
        // The handler of an endpoint without a token has no use for an author.
        const userAgent = request.userAgent && printable(request.userAgent).slice(0, MOST_OF_A_USER_AGENT)
        const by = { author: author as SignedIn, requestId, address: request.address, userAgent }
        const admitted = await this.#admit(endpoint, { ...readRequest(endpoint, sent), ...by }, sent, request)
        const owner = author?.userId ?? request.address
        if ('kept' in admitted) return this.#reply(asRequest(endpoint), admitted.kept, request, { resource, owner })
        return this.#reply(endpoint, await admitted.act(), request, { resource, owner })
      })
    } catch (error) {
      const refusal = this.#asAdminError(error, requestId)
      const reply = errorReply(refusal, requestId, resource)
      const { next } = refusal.options
      return next ? { ...reply, headers: [...reply.headers, this.#linkTo(request, next), INCOMPLETE] } : reply
    } finally {
      this.#running--
    }
  }

  /** A grave act asks for a recent sign-in, or for another person. */
  async #admit(
    endpoint: AnyEndpoint,
    values: Parameters<AnyEndpoint['handle']>[0],
    sent: SentValues,
    request: AdminRequest,
  ): Promise<{ act(): Promise<Answer<unknown>> } | { kept: Answer<unknown> }> {
    const { context, operator, emergency } = this.#options
    const asks = async (rule: AnyEndpoint['needsSession']) =>
      !operator && (typeof rule === 'function' ? await rule(values, context) : rule === true)
    if (await asks(endpoint.needsSession)) requireSession(values.author)
    if (await asks(endpoint.recentSignIn)) await context.signIn.requireRecent(values.author)
    const wanted = await endpoint.approval?.(values, context)
    if (!wanted) return { act: () => endpoint.handle(values, context) }
    if (!operator) {
      const reason = readReason(request.approvalReason)
      const row = await context.approvals.request(values.author, {
        operation: endpoint.id,
        input: sent,
        wanted,
        reason,
      })
      const headers = [['Location', `${context.baseUrl}/approvals/${row.id}`] as const]
      return { kept: { headers, body: approvalBody(row) } }
    }
    if (emergency === undefined)
      throw new AdminError(
        'approval_needed',
        `another person must approve this: ${wanted.summary}; ask with --server, or say --emergency and a reason, of which all administrators hear`,
      )
    const audit = context.audit.permitted(emergencyPermit(operator, wanted, emergency))
    return { act: () => endpoint.handle({ ...values, approved: { most: wanted.most ?? null } }, { ...context, audit }) }
  }

  /** @param author undefined for a stranger */
  async #inTurn<T>(
    { asksProvider }: AnyEndpoint,
    author: SignedIn | undefined,
    { address }: AdminRequest,
    work: () => Promise<T>,
  ): Promise<T> {
    if (!author) return (asksProvider ? this.#ofProvider : this.#strangers).run(countedAddress(address), work)
    const { userId } = author
    const own = this.#known.get(userId) ?? 0
    if (own >= MOST_OF_ONE || this.#working >= MOST_AT_ONCE) throw busy()
    this.#known.set(userId, own + 1)
    this.#working++
    return work().finally(() => {
      this.#working--
      const left = (this.#known.get(userId) ?? 1) - 1
      if (left === 0) this.#known.delete(userId)
      else this.#known.set(userId, left)
    })
  }

  /** @throws AdminError unauthorized, forbidden */
  async #authorize(endpoint: AnyEndpoint, { authorization, address }: AdminRequest): Promise<SignedIn> {
    // No endpoint that the command line offers needs the id of a user.
    if (this.#options.operator) return this.#options.operator as SignedIn
    const token = /^Bearer +([\x21-\x7e]{1,4096})$/i.exec(authorization ?? '')?.[1]
    if (token === undefined)
      throw new AdminError('unauthorized', 'a bearer token is needed; POST /auth/login gives one')
    const author = await this.#options.context.signIn.authenticate(token, address)
    if (!author) throw new AdminError('unauthorized', 'the token is wrong, has expired, or was logged out')
    const roles = endpoint.roles as readonly Role[]
    if (!roles.includes(author.role)) throw new AdminError('forbidden', `this needs the role ${roles.join(' or ')}`)
    if (author.isUnproven && !endpoint.enrols)
      throw new AdminError('second_factor_needed', 'a second factor is required here: register a passkey first')
    if (endpoint.needsSession === true) requireSession(author)
    return author
  }

  async #reply(
    { reply, path }: AnyEndpoint,
    answer: Answer<unknown>,
    request: AdminRequest,
    { resource, owner }: { resource: string; owner: string },
  ): Promise<AdminReply> {
    const status = answer.status ?? reply.status
    const headers: Header[] = [...(answer.headers ?? [])]
    if (status === 204) return { status, headers, body: '', resource }
    headers.push(['Content-Type', reply.contentType ?? 'application/json'])
    if (answer.next) headers.push(this.#linkTo(request, answer.next))
    if (answer.isCut) headers.push(INCOMPLETE)
    if (answer.lines) return { status, headers, resource, ...(await this.#options.streams.open(owner, answer.lines)) }
    if (answer.octets) return { status, headers, resource, body: '', octets: answer.octets }
    // A reply that does not fit its description is our fault, and must not leave.
    const body = reply.schema ? reply.schema.parse(answer.body) : answer.body
    if (body === undefined) throw new Error(`${path} gave no body`)
    return { status, headers, resource, body: reply.contentType ? String(body) : JSON.stringify(body) }
  }

  /** Keeps the filters of the request. */
  #linkTo({ path, query }: AdminRequest, next: Readonly<Record<string, string>>): Header {
    const parameters = new URLSearchParams(query)
    for (const place of PLACES) parameters.delete(place)
    for (const [name, value] of Object.entries(next)) parameters.set(name, value)
    return ['Link', `<${this.#options.baseUrl}${path}?${parameters}>; rel="next"`]
  }

  #asAdminError(error: unknown, requestId: string): AdminError {
    if (error instanceof AdminError) return error
    if (isBusy(error)) {
      this.#options.log.warn({ requestId, err: error }, 'the database did not answer an admin request in time')
      return new AdminError('unavailable', 'the database is busy or away; try again', {
        retryAfterSeconds: DATABASE_RETRY_SECONDS,
      })
    }
    this.#options.log.error({ requestId, err: error }, 'admin request failed')
    return new AdminError('internal', `the server failed; quote request ${requestId} to its operator`)
  }
}

function requireSession({ sessionId }: SignedIn): void {
  if (sessionId === undefined) throw new AdminError('forbidden', 'this needs a login; an API token may not do it')
}

/** The reply in place of the act's own. */
const asRequest = (endpoint: AnyEndpoint): AnyEndpoint => ({ ...endpoint, reply: APPROVAL_REPLY })

/** Tells that a search was cut off after these rows. */
const INCOMPLETE: Header = ['Search-Complete', 'false']

/** A link has either an offset or a cursor. */
const PLACES = ['limit', 'offset', 'cursor']

const busy = () =>
  new AdminError('unavailable', 'too many administrative requests at once; try again', {
    retryAfterSeconds: BUSY_RETRY_SECONDS,
  })

interface Turn {
  owner: string
  begin(): void
}

interface TurnsOptions {
  /** Pieces at work. */
  atOnce: number
  atOnceOfOne: number
  /** At work or waiting. */
  mostOfOne: number
  /** Names the work in the refusal: "too many requests from this address". */
  what: string
  /** After a piece the turn rests as long as the piece took, which leaves half of the time to others. */
  rests?: true
}

const MOST_REST_MS = 2_000

/** Work that takes turns by its owner: a flood of one owner delays another one by one piece of work. */
export class Turns {
  readonly #options: TurnsOptions
  readonly #queue: FairQueue<Turn>
  /** Pieces by owner. */
  readonly #present = new Map<string, number>()

  constructor(options: TurnsOptions) {
    const { atOnce, atOnceOfOne } = options
    this.#options = options
    this.#queue = new FairQueue({
      ownerOf: ({ owner }) => owner,
      targetOf: () => 'all',
      perOwner: atOnceOfOne,
      perTarget: atOnce,
    })
  }

  /** @throws AdminError rate_limited */
  async run<T>(owner: string, work: () => Promise<T>): Promise<T> {
    const { mostOfOne, what, rests } = this.#options
    const present = this.#present.get(owner) ?? 0
    if (present >= mostOfOne)
      throw new AdminError('rate_limited', `too many ${what} at once; try again`, {
        retryAfterSeconds: BUSY_RETRY_SECONDS,
      })
    this.#present.set(owner, present + 1)
    const turn = await this.#turnOf(owner)
    const startedAt = performance.now()
    try {
      return await work()
    } finally {
      this.#leave(owner)
      if (rests) setTimeout(() => this.#end(turn), Math.min(performance.now() - startedAt, MOST_REST_MS)).unref()
      else this.#end(turn)
    }
  }

  #turnOf(owner: string): Promise<Turn> {
    return new Promise((resolve) => {
      const turn: Turn = { owner, begin: () => resolve(turn) }
      this.#queue.push(turn)
      this.#queue.take()?.begin()
    })
  }

  #end(turn: Turn): void {
    this.#queue.giveBack(turn)
    this.#queue.take()?.begin()
  }

  #leave(owner: string): void {
    const left = (this.#present.get(owner) ?? 1) - 1
    if (left === 0) this.#present.delete(owner)
    else this.#present.set(owner, left)
  }
}
