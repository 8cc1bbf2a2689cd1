/**
 * The ACME interface as one function from request to reply, with the headers that every reply
 * carries (RFC 8555 §6.5, §7.1).
 */

import { FixedHeaders, type Header, type HttpReply, type HttpRequest } from '../http/http-message.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { ResourceMatch, ResourceName } from '../shared/protocol/urls.ts'
import { account, keyChange, newAccount } from './accounts.ts'
import { authorization, challenge, newAuthz } from './authorizations.ts'
import { type AcmeContext, type AcmeEndpoint, type AcmeExchange, type AcmeReply, acmeEndpoint } from './endpoint.ts'
import { namesItsAccount, noSuchResource, runEndpoint } from './gate.ts'
import { accountOrders, certificate, finalize, newOrder, order, renewalInfo, revokeCert } from './orders.ts'

/** RFC 8555 §7.1.1. A signed request gets the same document: RFC 8555 §6.3 requires POST-as-GET beside GET. */
const directory = acmeEndpoint({
  resource: 'directory',
  signedBy: 'kid',
  payload: 'none',
  async handle(_request, context) {
    return { status: 200, body: renderDirectory(context) }
  },
})

/** Renders the directory. The text stays the same for the life of the process. */
function renderDirectory({ urls, settings }: Pick<AcmeContext, 'urls' | 'settings'>): string {
  return JSON.stringify({
    newNonce: urls.fixed('newNonce'),
    newAccount: urls.fixed('newAccount'),
    newOrder: urls.fixed('newOrder'),
    newAuthz: urls.fixed('newAuthz'),
    revokeCert: urls.fixed('revokeCert'),
    keyChange: urls.fixed('keyChange'),
    ...(urls.renewalInfo !== undefined && { renewalInfo: urls.renewalInfo }),
    meta: settings.directoryMeta,
  })
}

/** Adds no nonce itself: every reply carries one (RFC 8555 §7.2, §6.3). */
const newNonce = acmeEndpoint({
  resource: 'newNonce',
  signedBy: 'kid',
  payload: 'none',
  limit: 'new_nonce',
  async handle({ visit }) {
    await visit?.charge()
    return { status: 204 }
  },
})

/** `handle` below answers renewal information unsigned (RFC 9773 §4). CRLs and roots are not part of ACME. */
type SignedResource = Exclude<ResourceName, 'renewalInfo' | 'crl' | 'roots'>

/** Endpoints for signed requests. `handle` below answers unsigned GETs of the directory and of nonces. */
export const ENDPOINTS: Record<SignedResource, AcmeEndpoint> = {
  directory,
  newNonce,
  newAccount,
  account,
  accountOrders,
  newOrder,
  order,
  finalize,
  newAuthz,
  authorization,
  challenge,
  certificate,
  revokeCert,
  keyChange,
}

type Scheme = AcmeExchange['scheme']

export interface AcmeApplication {
  /** @returns undefined when the path is not an ACME path */
  match(path: string): ResourceMatch | undefined
  /** Whether the request is answered from memory, so that a database that hangs does not matter to it. */
  needsNoStatement(http: Pick<HttpRequest, 'method' | 'path'>): boolean
  /** Rejects only with server faults. The caller turns them into a problem and a log line. */
  handle(http: HttpRequest, match: ResourceMatch, exchange: AcmeExchange): HttpReply | Promise<HttpReply>
  /** Renders a problem with the headers an ACME client needs to continue, above all a nonce. */
  problem(problem: Problem, exchange: AcmeExchange): HttpReply
  notFound(exchange: AcmeExchange): HttpReply
  /** For a path without a match: it may be the URL of an account at a former server. */
  unmatched(http: HttpRequest, exchange: AcmeExchange): HttpReply | Promise<HttpReply>
}

/** Unsigned. A new nonce is one of them, unless its limit is counted in the database. */
const FROM_MEMORY: ReadonlySet<ResourceName | undefined> = new Set(['directory', 'crl', 'roots'])
const PLAIN_METHODS = ['GET', 'HEAD', 'POST']
const UNSIGNED_METHODS = ['GET', 'HEAD']
const SIGNED_METHODS = ['POST']

function methodsOf(resource: ResourceName): readonly string[] {
  if (resource === 'renewalInfo') return UNSIGNED_METHODS
  return resource === 'directory' || resource === 'newNonce' ? PLAIN_METHODS : SIGNED_METHODS
}

/** @param security headers of every response, by the scheme of the client's connection */
export function createAcmeApplication(
  context: AcmeContext,
  security: Record<Scheme, readonly Header[]>,
): AcmeApplication {
  const { urls, limits } = context
  const replies = new AcmeReplies(context, security)
  const directory: AcmeReply = { status: 200, body: renderDirectory(context) }

  function handleSigned(http: HttpRequest, match: ResourceMatch, exchange: AcmeExchange): Promise<HttpReply> {
    const endpoint = ENDPOINTS[match.resource as SignedResource]
    return replies.after(runEndpoint(endpoint, { http, match, exchange }, context), exchange)
  }

  /** RFC 8555 §7.2: 200 to HEAD, 204 to GET. */
  function handleNewNonce(method: string, exchange: AcmeExchange): HttpReply | Promise<HttpReply> {
    const reply = () => replies.render({ status: method === 'HEAD' ? 200 : 204 }, exchange)
    const refused = (error: unknown) => replies.refused(error, exchange)
    try {
      return limits.visit('new_nonce', exchange.address).charge()?.then(reply, refused) ?? reply()
    } catch (error) {
      return refused(error)
    }
  }

  return {
    match: (path) => urls.match(path),
    needsNoStatement({ method, path }) {
      if (!UNSIGNED_METHODS.includes(method)) return false
      const resource = urls.match(path)?.resource
      return FROM_MEMORY.has(resource) || (resource === 'newNonce' && !limits.isShared)
    },
    problem: (problem, exchange) => replies.problem(problem, exchange),
    notFound: (exchange) => replies.problem(noSuchResource(), exchange),
    unmatched(http, exchange) {
      const url = urls.at(http.path)
      if (http.method !== 'POST' || !namesItsAccount(http, url, context))
        return replies.problem(noSuchResource(), exchange)
      return handleSigned(http, { resource: 'account', id: '', url }, exchange)
    },
    handle(http, match, exchange) {
      const allowed = methodsOf(match.resource)
      if (http.method === 'OPTIONS') return replies.options(allowed, exchange)
      if (!allowed.includes(http.method)) {
        const detail = `this resource answers ${allowed.join(', ')}, not this method`
        return replies.problem(new Problem('malformed', detail, { status: 405, allow: allowed }), exchange)
      }
      if (http.method === 'POST') return handleSigned(http, match, exchange)
      if (match.resource === 'directory') return replies.render(directory, exchange)
      if (match.resource === 'renewalInfo') return replies.after(renewalInfo(match.id, context, exchange.now), exchange)
      return handleNewNonce(http.method, exchange)
    },
  }
}

/** Makes replies of results and problems, with the headers that every ACME response carries. */
class AcmeReplies {
  readonly #nonces: AcmeContext['nonces']
  readonly #fixed: Record<Scheme, FixedHeaders>
  readonly #fixedForBrowsers: Record<Scheme, FixedHeaders>

  constructor({ urls, nonces }: AcmeContext, security: Record<Scheme, readonly Header[]>) {
    const directoryUrl = urls.fixed('directory')
    const fixedFor = (scheme: Scheme, more: readonly Header[]) =>
      new FixedHeaders([...fixedAcmeHeaders(directoryUrl, security[scheme]), ...more])
    this.#nonces = nonces
    this.#fixed = { http: fixedFor('http', []), https: fixedFor('https', []) }
    this.#fixedForBrowsers = { http: fixedFor('http', ANY_ORIGIN), https: fixedFor('https', ANY_ORIGIN) }
  }

  render(reply: AcmeReply, { requestId, now, scheme, fromBrowser }: AcmeExchange): HttpReply {
    const nonce = this.#nonces.issue(now.getTime())
    const fixedHeaders = (fromBrowser ? this.#fixedForBrowsers : this.#fixed)[scheme]
    return renderReply(reply, { nonce, requestId, fixedHeaders })
  }

  problem(refusal: Problem, exchange: AcmeExchange): HttpReply {
    exchange.refusal = refusal
    const rendered = this.render(problemReply(refusal), exchange)
    const { allow } = refusal.options
    return allow ? { ...rendered, headers: [...rendered.headers, ['Allow', allow.join(', ')] as const] } : rendered
  }

  options(allowed: readonly string[], exchange: AcmeExchange): HttpReply {
    const rendered = this.render({ status: 204 }, exchange)
    const methods = allowed.join(', ')
    const headers: Header[] = [...rendered.headers, ['Allow', methods]]
    if (exchange.fromBrowser) headers.push(['Access-Control-Allow-Methods', methods], ...PREFLIGHT)
    return { ...rendered, headers }
  }

  /** @throws what is no Problem */
  refused(error: unknown, exchange: AcmeExchange): HttpReply {
    if (error instanceof Problem) return this.problem(error, exchange)
    throw error
  }

  after(work: Promise<AcmeReply>, exchange: AcmeExchange): Promise<HttpReply> {
    return work.then(
      (reply) => {
        if (reply.made) Object.assign(exchange, reply.made)
        return this.render(reply, exchange)
      },
      (error) => this.refused(error, exchange),
    )
  }
}

/**
 * Lets ACME clients run in browsers (RFC 8555 §6.1; docs/decisions/cors.md). Other clients get no such headers:
 * getssl takes the account's URL from any header line that contains "location".
 */
const ANY_ORIGIN: readonly Header[] = [
  ['Vary', 'Origin'],
  ['Access-Control-Allow-Origin', '*'],
  ['Access-Control-Expose-Headers', 'Replay-Nonce, Location, Link, Retry-After'],
]
/**
 * Browsers ask before they send `application/jose+json` (Fetch, CORS-safelisted request-header).
 * They cache the answer for a day at most.
 */
const PREFLIGHT: readonly Header[] = [
  ['Access-Control-Allow-Headers', 'Content-Type'],
  ['Access-Control-Max-Age', '86400'],
]

interface ReplyContext {
  nonce: string
  requestId: string
  fixedHeaders: FixedHeaders
}

const PROBLEM_TYPE = 'application/problem+json'

/** The headers of every response: `security`, such as X-Content-Type-Options, and ACME's own. */
export function fixedAcmeHeaders(directoryUrl: string, security: readonly Header[]): Header[] {
  return [['Cache-Control', 'no-store'], ['Link', `<${directoryUrl}>;rel="index"`], ...security]
}

export function renderReply(reply: AcmeReply, { nonce, requestId, fixedHeaders }: ReplyContext): HttpReply {
  const headers: Header[] = [
    ['Replay-Nonce', nonce],
    ['X-Request-ID', requestId],
  ]
  if (reply.location !== undefined) headers.push(['Location', reply.location])
  if (reply.retryAfterSeconds !== undefined) headers.push(['Retry-After', String(reply.retryAfterSeconds)])
  for (const link of reply.links ?? []) headers.push(['Link', link])
  if (reply.body !== undefined) headers.push(['Content-Type', reply.contentType ?? 'application/json'])
  return { status: reply.status, headers, fixedHeaders, body: reply.body ?? '' }
}

export function problemReply(problem: Problem): AcmeReply {
  const { location, retryAfterSeconds, links } = problem.options
  return {
    status: problem.status,
    body: JSON.stringify(problem),
    contentType: PROBLEM_TYPE,
    location,
    retryAfterSeconds,
    links,
  }
}
