/**
 * The http-01 challenge (RFC 8555 §8.3; RFC 8738 §5 for IP identifiers).
 *
 * Each hop reaches the host (`../reach.ts`) and sends one request (RFC 9112) over that connection only: no agent, proxy,
 * look-up, cookie or decoding. Redirects may lead to http and https on the ports below. Errors name the first URL and our own words, never the body or a
 * Location.
 *
 * After a redirect to another host or path, all failures give one sentence; the evidence has the
 * reason. Otherwise a client could probe this server's network for hosts, ports and paths.
 * A redirect that only changes http to https reveals nothing new, so its error is specific.
 */

import { timingSafeEqual } from 'node:crypto'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { isIP, type Socket } from 'node:net'
import { limitReceived } from '../../src/shared/lib/received-limit.ts'
import { startTimeLimit } from '../../src/shared/lib/time-limit.ts'
import { createAddressPolicy } from '../address-policy.ts'
import { startDeadline } from '../deadline.ts'
import { createDnsClient } from '../dns/dns-client.ts'
import type { Http01Job, ValidationVerdict } from '../job.ts'
import {
  type ConnectionFailure,
  errorReason,
  type ReachContext,
  reach,
  SENT_WITHOUT_END,
  type TlsOffer,
} from '../reach.ts'
import { nearMiss } from './near-miss.ts'

const MAX_REDIRECTS = 10
/** Not 303, which names another resource (RFC 9110 §15.4.4). */
const REDIRECT_STATUSES = new Set([301, 302, 307, 308])
/** Limit of white space after the key authorization (RFC 8555 §8.3). A longer body fails. */
const TRAILING_SPACE_BYTES = 1024
/** Evidence is stored with the challenge, so a Location is truncated. */
const MAX_EVIDENCE_URL = 512

type Failure = Extract<ValidationVerdict, { ok: false }>

interface Attempt extends ReachContext {
  job: Http01Job
  /** Number of redirects followed. */
  redirects: number
  /** True after a redirect to another host or path. */
  isElsewhere: boolean
}

/**
 * Returns a verdict for any input from DNS and the web server, within `job.timeoutMs`.
 * @throws RangeError for settings that do not parse; loading the configuration checked them.
 */
export async function validateHttp01(job: Http01Job): Promise<ValidationVerdict> {
  const attempt: Attempt = {
    job,
    dns: createDnsClient(job.dns),
    policy: createAddressPolicy(job.blockedNetworks),
    deadline: startDeadline(job.timeoutMs),
    evidence: [],
    redirects: 0,
    isElsewhere: false,
  }
  const verdict = await followUntilAnswer(attempt)
  attempt.evidence.push({ step: 'finished', durationMs: Math.round(attempt.deadline.elapsedMs()) })
  return verdict
}

async function followUntilAnswer(attempt: Attempt): Promise<ValidationVerdict> {
  const first = firstUrl(attempt.job)
  if (!first) return fail(attempt, 'dns', 'not a host name that can be looked up', false)
  let url = first
  const visited = new Set<string>()
  for (;;) {
    visited.add(url.href)
    const response = await fetchOnce(url, attempt)
    if ('ok' in response) return response
    if (!REDIRECT_STATUSES.has(response.status)) return judge(response, attempt)

    const next = redirectTarget(url, response.location, attempt)
    if (!(next instanceof URL)) return next
    if (visited.has(next.href)) return fail(attempt, 'incorrectResponse', 'redirects form a loop', true)
    if (attempt.redirects === MAX_REDIRECTS) {
      return fail(attempt, 'incorrectResponse', `more than ${MAX_REDIRECTS} redirects`, true)
    }
    attempt.redirects++
    attempt.isElsewhere ||= resourceOf(next) !== resourceOf(first)
    url = next
  }
}

/** RFC 8555 §8.3, RFC 8738 §5. */
function challengeUrl({ identifier, port, token }: Http01Job): string {
  const host = isIP(identifier.value) === 6 ? `[${identifier.value}]` : identifier.value
  return `http://${host}${port === 80 ? '' : `:${port}`}/.well-known/acme-challenge/${token}`
}

/** Undefined when URL would parse another host from the name: DNS name `10.0x1` becomes 10.0.0.1. */
function firstUrl(job: Http01Job): URL | undefined {
  const url = parseUrl(challengeUrl(job))
  return url === undefined || job.identifier.type === 'ip' || hostOf(url) === job.identifier.value ? url : undefined
}

function parseUrl(text: string, base?: URL): URL | undefined {
  try {
    return new URL(text, base)
  } catch {
    return undefined
  }
}

async function fetchOnce(url: URL, attempt: Attempt): Promise<HttpResponse | Failure> {
  const socket = await reach({ host: hostOf(url), port: portOf(url), tls: tlsFor(url) }, attempt)
  if ('kind' in socket) return fail(attempt, socket.problem, socket.reason, socket.retryable)

  const { keyAuthorization, maxResponseBytes, userAgent } = attempt.job
  const maxBodyBytes = Math.min(maxResponseBytes, keyAuthorization.length + TRAILING_SPACE_BYTES)
  const request = { host: url.host, path: url.pathname + url.search, userAgent, maxBodyBytes }
  const response = await get(socket, request, attempt.deadline.remainingMs())
  if (response.kind === 'failed') {
    return fail(attempt, 'connection', `no complete response: ${response.reason}`, true)
  }
  attempt.evidence.push({ step: 'response', status: response.status, bytes: response.body.length })
  return response
}

/** An IP address is not a server name (RFC 6066 §3). */
function tlsFor(url: URL): TlsOffer | undefined {
  if (url.protocol !== 'https:') return undefined
  const host = hostOf(url)
  return { serverName: isIP(host) === 0 ? host : undefined, protocols: ['http/1.1'] }
}

/** The host without the brackets of an IPv6 literal and the final dot. */
function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$|\.$/g, '')
}

/** The parts of a URL apart from scheme and port. */
const resourceOf = (url: URL) => `${hostOf(url)}${url.pathname}${url.search}`

const portOf = (url: URL) => (url.port === '' ? DEFAULT_PORTS[url.protocol as 'http:' | 'https:'] : Number(url.port))
const DEFAULT_PORTS = { 'http:': 80, 'https:': 443 }

/**
 * http may use port 80 or the challenge's port, https 443 or `httpsPort`. Other ports would expose
 * other services of this server's network.
 */
function redirectTarget(from: URL, location: string | undefined, attempt: Attempt): URL | Failure {
  if (location === undefined) return fail(attempt, 'incorrectResponse', 'redirect without a Location', true)
  const to = parseUrl(location, from)
  if (!to) return fail(attempt, 'incorrectResponse', 'redirect to something that is not a URL', false)

  // Fragments are never sent, and credentials are never used.
  to.hash = to.username = to.password = ''
  attempt.evidence.push({ step: 'redirect', to: to.href.slice(0, MAX_EVIDENCE_URL) })
  if (to.protocol !== 'http:' && to.protocol !== 'https:') {
    return fail(attempt, 'incorrectResponse', 'redirect to a scheme other than http and https', false)
  }
  const ports = to.protocol === 'http:' ? [80, attempt.job.port] : [443, attempt.job.httpsPort]
  if (!ports.includes(portOf(to))) {
    return fail(attempt, 'incorrectResponse', 'redirect to a port that validation does not use', false)
  }
  return to
}

/** Checks the last response: status 200, the key authorization, and only white space after it. */
function judge(response: HttpResponse, attempt: Attempt): ValidationVerdict {
  if (response.status !== 200) return fail(attempt, 'unauthorized', `status ${response.status} instead of 200`, true)
  if (response.isTooLong) {
    return fail(attempt, 'incorrectResponse', 'the body is longer than the key authorization', false)
  }
  const expected = Buffer.from(attempt.job.keyAuthorization, 'latin1')
  const body = withoutTrailingSpace(response.body)
  // timingSafeEqual requires equal lengths, and the length is no secret.
  if (body.length === expected.length && timingSafeEqual(body, expected))
    return { ok: true, evidence: attempt.evidence }
  const slip = nearMiss(body, expected)
  return fail(attempt, 'incorrectResponse', `the body is not the key authorization${slip}`, false)
}

function withoutTrailingSpace(body: Buffer): Buffer {
  let end = body.length
  while (end > 0 && isSpace(body[end - 1]!)) end--
  return body.subarray(0, end)
}

/** Tab, line feed, vertical tab, form feed, carriage return, blank. */
const isSpace = (byte: number) => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d)

function fail(attempt: Attempt, problem: Failure['problem'], reason: string, retryable: boolean): Failure {
  const { redirects, isElsewhere, evidence, job } = attempt
  const url = challengeUrl(job)
  if (!isElsewhere) {
    const where = redirects === 0 ? '' : ' (after a redirect within the site)'
    return { ok: false, problem, detail: `${url}: ${reason}${where}`, retryable, evidence }
  }

  evidence.push({ step: 'behind-redirect', problem, reason })
  return { ok: false, ...BEHIND_REDIRECT, detail: `${url}: ${BEHIND_REDIRECT.detail}`, evidence }
}

/**
 * One problem type and no retry, because either would reveal the cause. No retry also means that a
 * chain is followed once (docs/decisions/bounded-attempts.md).
 */
const BEHIND_REDIRECT = {
  problem: 'incorrectResponse',
  detail: 'it redirects, and no key authorization was found there; the operator of this server can see why',
  retryable: false,
} as const

interface GetRequest {
  /** Host header, with any port other than the default. */
  host: string
  /** Path and query, percent-encoded. */
  path: string
  userAgent: string
  /** A longer body ends the exchange with `isTooLong`. */
  maxBodyBytes: number
}

/**
 * Limit for all bytes beside the body: informational responses, heads, chunk sizes, trailers. One
 * read of Node is at most as long.
 */
const MAX_OVERHEAD_BYTES = 65_536
/** Limit for one head (RFC 9110 §5.4 sets none). */
const MAX_HEAD_BYTES = 16_384

interface HttpResponse {
  kind: 'response'
  status: number
  /** First Location header. Octets outside ASCII are percent-encoded; PHP sends raw UTF-8. */
  location: string | undefined
  /** Raw, without content decoding. Empty unless the status is 200. */
  body: Buffer
  isTooLong: boolean
}

/** Sends the request and reads the response, for any input, within `timeoutMs`. It owns the socket and destroys it. */
function get(socket: Socket, what: GetRequest, timeoutMs: number): Promise<HttpResponse | ConnectionFailure> {
  return new Promise((resolve) => {
    let finished = false
    const finish = (outcome: HttpResponse | ConnectionFailure) => {
      if (finished) return
      finished = true
      stopTimer()
      socket.destroy()
      resolve(outcome)
    }
    const fail = (reason: string) => finish({ kind: 'failed', phase: 'exchange', reason })
    // Limits the whole response, not the gap between two bytes.
    const stopTimer = startTimeLimit(timeoutMs, () => fail('timed out'))

    const request = httpRequest({
      createConnection: () => socket,
      path: what.path,
      setHost: false,
      maxHeaderSize: MAX_HEAD_BYTES,
      // Shell scripts end lines with LF alone. One response on a connection cannot be split from another (RFC 9112 §11.1).
      insecureHTTPParser: true,
      headers: {
        host: what.host,
        'user-agent': what.userAgent,
        accept: '*/*',
        'accept-encoding': 'identity',
        connection: 'close',
      },
    })
    limitReceived(request, MAX_OVERHEAD_BYTES + what.maxBodyBytes, () => fail(SENT_WITHOUT_END))
    request.on('response', (response) => readResponse(response, what.maxBodyBytes, finish, fail))
    request.on('error', (error) => fail(errorReason(error)))
    request.on('close', () => fail('connection closed'))
    request.end()
  })
}

/** Node has one character for each octet of a header. */
const encodeOctet = (octet: string) => `%${octet.charCodeAt(0).toString(16).toUpperCase()}`

function readResponse(
  response: IncomingMessage,
  maxBodyBytes: number,
  finish: (outcome: HttpResponse) => void,
  fail: (reason: string) => void,
): void {
  const status = response.statusCode ?? 0
  const location = response.headers.location?.replaceAll(/[\x80-\xff]/g, encodeOctet)
  const done = (body: Buffer, isTooLong: boolean) => finish({ kind: 'response', status, location, body, isTooLong })

  response.on('error', (error) => fail(errorReason(error)))
  // Only status 200 needs its body; other responses fail or redirect.
  if (status !== 200) {
    done(Buffer.alloc(0), false)
    return
  }

  const chunks: Buffer[] = []
  let length = 0
  response.on('data', (chunk: Buffer) => {
    length += chunk.length
    if (length > maxBodyBytes) return done(Buffer.alloc(0), true)
    chunks.push(chunk)
  })
  response.on('end', () => (response.complete ? done(Buffer.concat(chunks), false) : fail('the body was cut off')))
}
