/** The public URL as clients see it: what a proxy in front strips, replaces, caches or refuses. */

import { parseCertificate } from '../../shared/pki/certificate.ts'
import { renderCertId } from '../../shared/protocol/renewal-info.ts'
import { type Answer, type Ask, askForAccount, jsonOf } from '../facts/http.ts'
import { type Check, noAnswer, type Sources } from '../sources.ts'
import { CannotTell, failure, ok, unknownBecause, type Verdict } from '../verdict.ts'

const EXAMPLES = 'compare its configuration with deploy/proxy/nginx.conf or deploy/proxy/haproxy.cfg'

/** A request of this length shows enough: longer limits are mistakes, or have another reason. */
const MOST_TRIED_BYTES = 1024 * 1024

const isOldHttp = ({ status }: Answer) => status === 505 || status === 426

/** @throws CannotTell where the proxy answers something else: its own check says so */
export async function requireDirectory(sources: Sources): Promise<Answer> {
  const answer = await sources.publicAnswer(sources.local('directory'))
  if (answer.status !== 200) throw new CannotTell(`the public URL answers with ${answer.status}`)
  return answer
}

export const PROXY: readonly Check[] = [
  {
    id: 'proxy.reachable',
    title: 'The directory can be fetched from the public URL',
    async look(sources) {
      const url = sources.urls.fixed('directory')
      const asked = await sources.publicly(sources.local('directory'))
      const { answer } = asked
      if (!answer)
        return noAnswer(
          asked,
          `${url} cannot be fetched from here`,
          'see that the name leads here (server.external_url) and that the proxy listens',
        )
      if (answer.status === 200 || isOldHttp(answer)) return ok(`${url} answers`)
      const direct = (await sources.directly(sources.local('directory'))).answer?.status ?? 'nothing'
      return failure(
        `${url} answers with ${answer.status}, the service itself with ${direct}`,
        `see where the proxy sends requests; ${EXAMPLES}`,
      )
    },
  },
  {
    id: 'proxy.http-version',
    title: 'The proxy speaks HTTP/1.1 to the service',
    async look(sources) {
      const answer = await sources.publicAnswer(sources.local('directory'))
      if (!isOldHttp(answer)) return ok('it does')
      return failure(
        'requests get 505: the proxy speaks HTTP/1.0 to the service',
        'in nginx: proxy_http_version 1.1; with proxy_set_header Connection "";',
      )
    },
  },
  {
    id: 'proxy.directory',
    title: 'The directory names the public URL that clients use',
    async look(sources) {
      const answer = await requireDirectory(sources)
      return judgeDirectory(jsonOf<Record<string, unknown>>(answer.body), sources.config.server.external_url)
    },
  },
  {
    id: 'proxy.head',
    title: 'HEAD and GET of new-nonce reach the service',
    async look(sources) {
      await requireDirectory(sources)
      const [head, get] = await Promise.all([newNonce(sources, 'HEAD'), newNonce(sources, 'GET')])
      return judgeNewNonce(head.status, get.status)
    },
  },
  {
    id: 'proxy.replay-nonce',
    title: 'The header Replay-Nonce passes, and is new each time',
    async look(sources) {
      await requireDirectory(sources)
      const nonces: HeaderValue[] = []
      // A busy cache keeps an answer a moment after it was sent, so the second request may get one of its own.
      for (const id of ['1', '2', '3']) nonces.push((await newNonce(sources, 'GET', id)).headers['replay-nonce'])
      const direct = await sources.serviceAnswer(sources.local('newNonce'))
      return judgeNonces(nonces, direct.headers['replay-nonce'])
    },
  },
  stripped('link', 'Link', 'clients find other chains by it', newNonceOf),
  stripped('cache-control', 'Cache-Control', 'caches keep nonces and old answers without it', newNonceOf),
  stripped('retry-after', 'Retry-After', 'clients wait too long or too short without it', renewalInfoOf),
  {
    id: 'proxy.signed-request',
    title: 'A signed request reaches the service as it was sent',
    async look(sources) {
      await requireDirectory(sources)
      const nonce = (await sources.serviceAnswer(sources.local('newNonce'))).headers['replay-nonce']
      const url = sources.urls.fixed('newAccount')
      const body = askForAccount(url, String(nonce), sources.config.security.allowed_algorithms)
      if (body === undefined)
        throw new CannotTell('the service takes none of the algorithms that the doctor signs with')
      return judgeSigned(await sources.publicAnswer(sources.local('newAccount'), post(body)))
    },
  },
  {
    id: 'proxy.body-size',
    title: 'Requests as long as the service takes pass',
    async look(sources) {
      await requireDirectory(sources)
      const most = Math.min(sources.config.security.max_request_body_bytes, MOST_TRIED_BYTES)
      // Not JSON: the service refuses it at once, and says so in a problem document.
      const request = post('x'.repeat(most - 1))
      const direct = await sources.serviceAnswer(sources.local('newAccount'), request)
      const { answer, failure: why } = await sources.publicly(sources.local('newAccount'), request)
      if (answer?.status === direct.status) return ok(`${most} bytes pass`)
      if (isBusy(answer) || isBusy(direct))
        throw new CannotTell('the service has no answer for this host now (429 or 503)')
      return failure(
        `a request of ${most} bytes gets ${answer?.status ?? why} at the public URL, and ${direct.status} from the service: large orders and CSRs fail`,
        `let the proxy take ${most} bytes (security.max_request_body_bytes); in nginx: client_max_body_size 64k; or more`,
      )
    },
  },
  {
    id: 'proxy.problems',
    title: 'Error replies of the service reach the client',
    async look(sources) {
      await requireDirectory(sources)
      const path = `${sources.local('directory')}/doctor-asks-for-nothing`
      const direct = await sources.serviceAnswer(path)
      const { status, headers } = await sources.publicAnswer(path)
      const [wanted, got] = [direct.headers['content-type'], headers['content-type']]
      if (status === direct.status && wanted === got) return ok('they do')
      return failure(
        `where the service answers ${direct.status} with ${wanted}, clients get ${status} with ${got ?? 'no type'}: they cannot read what was wrong`,
        'let the proxy pass error replies on; in nginx: proxy_intercept_errors off;',
      )
    },
  },
  {
    id: 'proxy.operators',
    title: 'Metrics and health are kept from the world',
    async look(sources) {
      await requireDirectory(sources)
      const { metrics } = sources.config
      const paths = ['/healthz', ...(metrics.enabled && !metrics.auth_required ? [metrics.path] : [])]
      const asked = await Promise.all(paths.map((path) => sources.publicly(path)))
      const open = paths.filter((_, at) => asked[at]?.answer?.status === 200)
      if (open.length === 0) return ok(`${paths.join(' and ')} are refused`)
      return unknownBecause(
        `this host may ask for ${open.join(' and ')}, and whether others may can only be seen from there`,
        `from elsewhere: curl ${sources.config.server.external_url}${open[0]} must answer 403`,
      )
    },
  },
]

function newNonce(sources: Sources, method: 'HEAD' | 'GET', id = '1'): Promise<Answer> {
  return sources.publicAnswer(sources.local('newNonce'), { method, headers: { 'X-Request-ID': `doctor-${id}` } })
}

/** The service refuses because of a limit of requests, or of overload. */
const isBusy = (answer: Pick<Answer, 'status'> | undefined) => answer?.status === 429 || answer?.status === 503

const post = (body: string): Ask => ({ method: 'POST', body, headers: { 'Content-Type': 'application/jose+json' } })

function judgeDirectory(found: Partial<Record<string, unknown>>, externalUrl: string): Verdict {
  const urls = Object.values(found).filter((value): value is string => typeof value === 'string')
  const foreign = urls.find((url) => !url.startsWith(externalUrl.replace(/\/$/, '')))
  if (urls.length > 0 && foreign === undefined) return ok(`all its URLs begin with ${externalUrl}`)
  return failure(
    foreign === undefined
      ? 'what answers there is no ACME directory'
      : `the directory names ${foreign}, and server.external_url is ${externalUrl}`,
    'restart the service if the key was changed; else lead the public URL to this service',
  )
}

function judgeNewNonce(head: number, get: number): Verdict {
  if (head === 200 && get === 204) return ok('they do')
  return failure(
    `HEAD of new-nonce gets ${head} in place of 200, GET ${get} in place of 204: clients begin with it`,
    'let the proxy pass HEAD and GET on unchanged',
  )
}

type HeaderValue = string | string[] | undefined

function judgeNonces(nonces: readonly HeaderValue[], direct: HeaderValue): Verdict {
  if (direct === undefined) return unknownBecause('the service itself sends none; it may be overloaded')
  if (nonces.includes(undefined))
    return failure(
      'the header Replay-Nonce is missing at the public URL: no client can do anything',
      'let the proxy pass Replay-Nonce on; in nginx: no proxy_hide_header Replay-Nonce',
    )
  if (new Set(nonces).size === nonces.length) return ok(`each of ${nonces.length} requests got a nonce of its own`)
  return failure(
    'requests got the same Replay-Nonce: something in between caches new-nonce',
    'switch caching off for the service; in nginx: proxy_cache off;',
  )
}

type Page = (sources: Sources) => Promise<string | undefined>

function newNonceOf(sources: Sources): Promise<string> {
  return Promise.resolve(sources.local('newNonce'))
}

/** Takes the newest certificate, because renewal information is for everybody. */
async function renewalInfoOf(sources: Sources): Promise<string | undefined> {
  const base = sources.urls.renewalInfo
  if (base === undefined) return undefined
  const [newest] = await sources.read('newestCertificate')
  if (!newest) return undefined
  const { authorityKeyIdentifier: keyIdentifier, serialNumber } = parseCertificate(newest.der).tbs
  if (!keyIdentifier) return undefined
  const path = `${base}/${renderCertId({ keyIdentifier, serialNumber })}`
  return path.slice(sources.config.server.external_url.replace(/\/$/, '').length)
}

/** A header that the service sends and clients need. */
function stripped(id: string, header: string, why: string, page: Page): Check {
  const name = header.toLowerCase()
  return {
    id: `proxy.${id}`,
    title: `The header ${header} passes`,
    async look(sources) {
      await requireDirectory(sources)
      const path = await page(sources)
      if (path === undefined) return undefined
      const direct = (await sources.serviceAnswer(path)).headers[name]
      if (direct === undefined) return undefined
      const { [name]: seen } = (await sources.publicAnswer(path)).headers
      if (seen !== undefined) return ok(`it does: ${String(seen).slice(0, 100)}`)
      return failure(
        `the header ${header} is missing at the public URL: ${why}`,
        `let the proxy pass ${header} on; in nginx: no proxy_hide_header ${header}`,
      )
    },
  }
}

export function judgeSigned({ status, headers, body }: Pick<Answer, 'status' | 'headers' | 'body'>): Verdict {
  const text = body.toString('utf8', 0, 2_000)
  if (text.includes('accountDoesNotExist')) return ok('it was read, and its key has no account')
  const type =
    /"type":\s*"(?:urn:ietf:params:acme:error:)?([^"]+)"/.exec(text)?.[1] ??
    String(headers['content-type'] ?? 'no type')
  const detail = /"detail":\s*"([^"]{0,200})/.exec(text)?.[1] ?? ''
  if (status === 415 || /Content-Type/i.test(detail))
    return failure(
      'the service gets another Content-Type than application/jose+json: every request of a client fails',
      'let the proxy leave the header Content-Type of requests alone',
    )
  if (isBusy({ status })) return unknownBecause(`the service has no answer for this host now (${status})`)
  return failure(
    `a signed request gets ${status} ${type}${detail && `: ${detail}`}, where accountDoesNotExist is right`,
    `see what the proxy makes of POST requests; ${EXAMPLES}`,
  )
}
