/**
 * The Admin API: from a request value to a reply value.
 *
 * Order of the checks: route, form of the body, token, role, parameters, query, body. Then the
 * handler runs. A stranger without a token learns of a path only that it exists.
 */

import type { Logger } from 'pino'
import { z } from 'zod/v4'
import { AdminError } from '../domain/admin-error.ts'
import type { Actor, Role } from '../domain/administrator.ts'
import type { Header } from '../http/http-message.ts'
import { parseJsonObject } from '../shared/lib/encoding.ts'
import { countedAddress } from '../shared/lib/ip-address.ts'
import { printable } from '../shared/lib/terminal.ts'
import { isBusy } from '../store/slonik.ts'
import type { Answer, AnyEndpoint } from './admin-endpoint.ts'
import { errorReply, invalid } from './admin-errors.ts'
import type { AdminReply, AdminRequest } from './admin-message.ts'
import { Router } from './admin-router.ts'
import type { AdminContext } from './context.ts'
import type { ReplyStreams } from './streams.ts'
import { Turns } from './turns.ts'
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
}

/** More at once are refused: each may hold a database connection. */
const MOST_AT_ONCE = 64
const BUSY_RETRY_SECONDS = 1
const DATABASE_RETRY_SECONDS = 5
/** Bytes of a body without a token: a username and a password. */
const MOST_OF_A_STRANGER = 8 * 1024
/** The largest bodies of an auditor are a CSR and a CSR profile. */
const MOST_OF_AN_AUDITOR = 64 * 1024
const MOST_OF_A_USER_AGENT = 200
/** Requests of one user, so that one user cannot keep the others out. */
const MOST_OF_ONE = 24
/**
 * Turns of callers that are not known yet, by address. As many passwords may wait for their hash (`admin/users/passwords.ts`).
 * A console asks for ten things at once, a hundred are a flood.
 */
const OF_STRANGERS = { atOnce: 16, atOnceOfOne: 4, mostOfOne: 64, what: 'requests from this address' }

export class AdminApplication {
  readonly #options: AdminApplicationOptions
  readonly #router: Router
  #running = 0
  /** Requests whose token is being checked. */
  readonly #unknown = new Turns(OF_STRANGERS)
  /** Turns of requests that need no token, such as logins. */
  readonly #strangers = new Turns(OF_STRANGERS)
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
      requireBody(endpoint, request)
      const author =
        endpoint.roles === 'none'
          ? undefined
          : await this.#unknown.run(countedAddress(request.address), () => this.#authorize(endpoint, request))
      return await this.#inTurn(author, request, async () => {
        const body = readBody(endpoint, request)
        const answer = await endpoint.handle(
          {
            params: parse(endpoint.params, params, 'path') as undefined,
            query: parse(endpoint.query, readQuery(request.query), 'query') as undefined,
            body: parse(endpoint.body, body, 'body') as undefined,
            // The handler of an endpoint without a token has no use for an author.
            author: author as SignedIn,
            requestId,
            address: request.address,
            userAgent: request.userAgent && printable(request.userAgent).slice(0, MOST_OF_A_USER_AGENT),
          },
          this.#options.context,
        )
        return this.#reply(endpoint, answer, request, { resource, owner: author?.userId ?? request.address })
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

  /** @param author undefined for a stranger */
  async #inTurn<T>(author: SignedIn | undefined, { address }: AdminRequest, work: () => Promise<T>): Promise<T> {
    if (!author) return this.#strangers.run(countedAddress(address), work)
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
    if (endpoint.needsSession && author.sessionId === undefined)
      throw new AdminError('forbidden', 'this needs a login; an API token may not do it')
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

/** Tells that a search was cut off after these rows. */
const INCOMPLETE: Header = ['Search-Complete', 'false']

/** A link has either an offset or a cursor. */
const PLACES = ['limit', 'offset', 'cursor']

const busy = () =>
  new AdminError('unavailable', 'too many administrative requests at once; try again', {
    retryAfterSeconds: BUSY_RETRY_SECONDS,
  })

/** A body without a media type counts as missing, as existing clients send it. */
const isMissing = ({ body, contentType }: AdminRequest) => body.length === 0 || contentType === undefined

/** Cheap checks come before the token, as existing clients expect. */
function requireBody({ body: schema, bodyIsOptional, roles }: AnyEndpoint, request: AdminRequest): void {
  if (!schema) return
  if (isMissing(request)) {
    if (bodyIsOptional) return
    throw new AdminError('invalid_request', 'a JSON object is needed as the body, with Content-Type: application/json')
  }
  if (!/^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(request.contentType ?? ''))
    throw new AdminError('unsupported_media_type', 'the body must be application/json')
  const most = mostOf(roles)
  if (request.body.length > most) throw new AdminError('too_large', `the body may have at most ${most} bytes`)
}

function mostOf(roles: AnyEndpoint['roles']): number {
  if (roles === 'none') return MOST_OF_A_STRANGER
  return roles.includes('auditor') ? MOST_OF_AN_AUDITOR : Number.POSITIVE_INFINITY
}

function readBody({ body: schema }: AnyEndpoint, request: AdminRequest): unknown {
  if (!schema) return undefined
  if (isMissing(request)) return {}
  const { body } = request
  const value = parseJsonObject(Buffer.from(body.buffer, body.byteOffset, body.byteLength))
  if (typeof value === 'string') throw new AdminError('invalid_request', `the body ${value}`)
  return value
}

/** @throws AdminError when a parameter is given twice */
function readQuery(query: string): Record<string, string> {
  const values: Record<string, string> = {}
  for (const [name, value] of new URLSearchParams(query)) {
    if (Object.hasOwn(values, name))
      throw new AdminError('invalid_request', `the query has '${name.slice(0, 64)}' twice`)
    values[name] = value
  }
  return values
}

const NO_QUERY = z.strictObject({})

/** No text in PostgreSQL may have it. */
function hasNul(value: unknown): boolean {
  if (typeof value === 'string') return value.includes('\0')
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(value).some(([name, member]) => name.includes('\0') || hasNul(member))
}

function parse(schema: z.ZodType | undefined, value: unknown, where: 'path' | 'query' | 'body'): unknown {
  if (!schema && where !== 'query') return undefined
  const expected = schema ?? NO_QUERY
  if (where !== 'path' && hasNul(value))
    throw new AdminError('invalid_request', `the ${where} has the character U+0000`)
  // Without the input, a wrong member could not be told from a missing one.
  const parsed = expected.safeParse(value, { reportInput: true })
  if (parsed.success) return parsed.data
  // No object has an id that is none.
  if (where === 'path') throw new AdminError('not_found', 'there is no such resource')
  throw invalid(where, parsed.error, expected)
}
