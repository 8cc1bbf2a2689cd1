/** The ACME interface as one function from request to reply: directory, nonces, endpoints, and problems for all the rest. */

import { FixedHeaders, type Header } from '../http/header.ts'
import type { HttpReply, HttpRequest } from '../http/message.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { ResourceMatch, ResourceName } from '../shared/protocol/urls.ts'
import type { AcmeContext } from './context.ts'
import { renderDirectory } from './directory.ts'
import { type AcmeReply, noSuchResource, runEndpoint } from './endpoint.ts'
import { renewalInfo } from './renewal-info.ts'
import { fixedAcmeHeaders, problemReply, renderReply } from './reply.ts'
import { ENDPOINTS, type SignedResource } from './routes.ts'

export interface AcmeExchange {
  requestId: string
  /** Of the client, behind trusted proxies. */
  address: string
  now: Date
  scheme: Scheme
}

type Scheme = 'http' | 'https'

export interface AcmeApplication {
  /** Undefined: the path is none of ACME's. */
  match(path: string): ResourceMatch | undefined
  /** Rejects only with faults of the server, which the caller turns into a problem and a log line. */
  handle(http: HttpRequest, match: ResourceMatch, exchange: AcmeExchange): HttpReply | Promise<HttpReply>
  /** A problem with the headers an ACME client needs to go on, a nonce above all. */
  problem(problem: Problem, exchange: AcmeExchange): HttpReply
  notFound(exchange: AcmeExchange): HttpReply
}

const PLAIN_METHODS = ['GET', 'HEAD', 'POST']
const UNSIGNED_METHODS = ['GET', 'HEAD']
const SIGNED_METHODS = ['POST']

function methodsOf(resource: ResourceName): readonly string[] {
  if (resource === 'renewalInfo') return UNSIGNED_METHODS
  return resource === 'directory' || resource === 'newNonce' ? PLAIN_METHODS : SIGNED_METHODS
}

/** @param security headers of every response, by how the client came */
export function createAcmeApplication(
  context: AcmeContext,
  security: Record<Scheme, readonly Header[]>,
): AcmeApplication {
  const { urls, nonces, limits } = context
  const directory: AcmeReply = { status: 200, body: renderDirectory(context) }
  const directoryUrl = urls.fixed('directory')

  function fixedWith(more: readonly Header[]): Record<Scheme, FixedHeaders> {
    const fixed = (scheme: Scheme) => new FixedHeaders([...fixedAcmeHeaders(directoryUrl, security[scheme]), ...more])
    return { http: fixed('http'), https: fixed('https') }
  }
  const common = fixedWith([])
  const ofDirectory = fixedWith([ALLOW_ANY_ORIGIN])
  const ofRenewalInfo = fixedWith([ALLOW_ANY_ORIGIN, EXPOSE_RETRY_AFTER])

  function render(reply: AcmeReply, { requestId, now, scheme }: AcmeExchange, fixed = common): HttpReply {
    return renderReply(reply, { nonce: nonces.issue(now.getTime()), requestId, fixedHeaders: fixed[scheme] })
  }

  function problem(refusal: Problem, exchange: AcmeExchange, fixed = common): HttpReply {
    const rendered = render(problemReply(refusal), exchange, fixed)
    const { allow } = refusal.options
    return allow ? { ...rendered, headers: [...rendered.headers, ['Allow', allow.join(', ')] as const] } : rendered
  }

  function replyTo(work: Promise<AcmeReply>, exchange: AcmeExchange, fixed = common): Promise<HttpReply> {
    return work.then(
      (reply) => render(reply, exchange, fixed),
      (error) => {
        if (error instanceof Problem) return problem(error, exchange, fixed)
        throw error
      },
    )
  }

  function handleSigned(http: HttpRequest, match: ResourceMatch, exchange: AcmeExchange): Promise<HttpReply> {
    const endpoint = ENDPOINTS[match.resource as SignedResource]
    const { requestId, address, now } = exchange
    return replyTo(runEndpoint(endpoint, { http, match, requestId, address, now }, context), exchange)
  }

  /** RFC 8555 §7.2: 200 to HEAD, 204 to GET. */
  function handleNewNonce(method: string, exchange: AcmeExchange): HttpReply | Promise<HttpReply> {
    const reply = () => render({ status: method === 'HEAD' ? 200 : 204 }, exchange)
    const refused = (error: unknown) => {
      if (error instanceof Problem) return problem(error, exchange)
      throw error
    }
    try {
      return limits.visit('new_nonce', exchange.address).charge()?.then(reply, refused) ?? reply()
    } catch (error) {
      return refused(error)
    }
  }

  return {
    match: urls.match,
    problem,
    notFound: (exchange) => problem(noSuchResource(), exchange),
    handle(http, match, exchange) {
      const allowed = methodsOf(match.resource)
      if (!allowed.includes(http.method)) {
        const detail = `this resource answers ${allowed.join(', ')}, not this method`
        return problem(new Problem('malformed', detail, { status: 405, allow: allowed }), exchange)
      }
      if (http.method === 'POST') return handleSigned(http, match, exchange)
      if (match.resource === 'directory') return render(directory, exchange, ofDirectory)
      if (match.resource === 'renewalInfo')
        return replyTo(renewalInfo(match.id, context, exchange.now), exchange, ofRenewalInfo)
      return handleNewNonce(http.method, exchange)
    },
  }
}

/** Browsers may read the directory and renewal information (decisions 21). */
const ALLOW_ANY_ORIGIN: Header = ['Access-Control-Allow-Origin', '*']
/** Without it a script of another origin does not see when to ask again. */
const EXPOSE_RETRY_AFTER: Header = ['Access-Control-Expose-Headers', 'Retry-After']
