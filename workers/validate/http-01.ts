/**
 * The http-01 challenge (RFC 8555 §8.3; RFC 8738 §5 for IP identifiers).
 *
 * Each hop is: look the name up, drop blocked addresses, connect to one of what is left, ask once. Nothing is looked up
 * twice, so a name that changes its address between the check and the connection gains nothing. Redirects are followed
 * to http and https on the ports below. What the client is told names the first URL and our own words; neither the body
 * nor a Location, nor an address behind a redirect, since that would make the validator a probe for others.
 */

import { timingSafeEqual } from 'node:crypto'
import { isIP, isIPv4, type Socket } from 'node:net'
import { type AddressPolicy, createAddressPolicy } from '../address-policy.ts'
import { type Deadline, startDeadline } from '../deadline.ts'
import { createDnsClient, type DnsClient } from '../dns/client.ts'
import { connect, get, type HttpFailure, type HttpResponse } from '../http-get.ts'
import type { EvidenceStep, Http01Job, ValidationVerdict } from '../job.ts'

const MAX_REDIRECTS = 10
const REDIRECT_STATUSES = new Set([301, 302, 303, 307, 308])
/** One of IPv6 and a few of IPv4, or a few of the only family; each gets its share of the time that is left. */
const MAX_CONNECT_ATTEMPTS = 4
/** Room for white space after the key authorization (RFC 8555 §8.3); whoever needs more is not answering us. */
const TRAILING_SPACE_BYTES = 1024
/** Evidence is kept with the challenge, so a Location is cut. */
const MAX_EVIDENCE_URL = 512

type Failure = Extract<ValidationVerdict, { ok: false }>

interface Attempt {
  job: Http01Job
  dns: DnsClient
  policy: AddressPolicy
  deadline: Deadline
  evidence: EvidenceStep[]
  /** How many redirects were followed. */
  redirects: number
}

/**
 * Total for anything that DNS and the web server can send; ends within `job.timeoutMs`.
 * @throws RangeError for a job whose settings do not parse (they were checked when the configuration was loaded).
 */
export async function validateHttp01(job: Http01Job): Promise<ValidationVerdict> {
  const attempt: Attempt = {
    job,
    dns: createDnsClient(job.dns),
    policy: createAddressPolicy(job.blockedNetworks),
    deadline: startDeadline(job.timeoutMs),
    evidence: [],
    redirects: 0,
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
    url = next
  }
}

/** RFC 8555 §8.3, RFC 8738 §5. */
function challengeUrl({ identifier, port, token }: Http01Job): string {
  const host = isIP(identifier.value) === 6 ? `[${identifier.value}]` : identifier.value
  return `http://${host}${port === 80 ? '' : `:${port}`}/.well-known/acme-challenge/${token}`
}

/** Undefined when URL would read another host out of the name, as it makes 10.0.0.1 of the DNS name `10.0x1`. */
function firstUrl(job: Http01Job): URL | undefined {
  const text = challengeUrl(job)
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  return job.identifier.type === 'ip' || hostOf(url) === job.identifier.value ? url : undefined
}

async function fetchOnce(url: URL, attempt: Attempt): Promise<HttpResponse | Failure> {
  const addresses = await allowedAddresses(url, attempt)
  if ('ok' in addresses) return addresses

  const socket = await connectToOne(url, addresses, attempt)
  if ('ok' in socket) return socket

  const { keyAuthorization, maxResponseBytes, userAgent } = attempt.job
  const maxBodyBytes = Math.min(maxResponseBytes, keyAuthorization.length + TRAILING_SPACE_BYTES)
  const request = { host: url.host, path: url.pathname + url.search, userAgent, maxBodyBytes }
  const response = await get(socket, request, attempt.deadline.remainingMs())
  if (response.kind === 'failed') return failConnection(attempt, response)

  attempt.evidence.push({ step: 'response', status: response.status, bytes: response.body.length })
  return response
}

async function allowedAddresses(url: URL, attempt: Attempt): Promise<string[] | Failure> {
  const found = await addressesOf(url, attempt)
  if ('ok' in found) return found

  const blocked = found.filter((address) => attempt.policy.isBlocked(address))
  if (blocked.length > 0) attempt.evidence.push({ step: 'blocked', addresses: blocked })
  const allowed = found.filter((address) => !blocked.includes(address))
  if (allowed.length > 0) return allowed
  return fail(attempt, 'connection', 'no address that this server may connect to', false)
}

/** IPv6 first. A literal in the URL needs no look-up. */
async function addressesOf(url: URL, attempt: Attempt): Promise<string[] | Failure> {
  const host = hostOf(url)
  if (isIP(host) !== 0) return [host]

  const found = await attempt.dns.resolveAddresses(host, attempt.deadline)
  if (found.kind === 'answer') {
    const { resolver, aliases, ipv6, ipv4 } = found
    attempt.evidence.push({ step: 'resolved', host, addresses: [...ipv6, ...ipv4], resolver, aliases })
    return [...ipv6, ...ipv4]
  }
  const reason = found.kind === 'failed' ? found.reason : NO_ADDRESS[found.kind]
  attempt.evidence.push({ step: 'not-resolved', host, reason })
  return fail(attempt, 'dns', `address look-up failed: ${reason}`, found.kind !== 'failed' || found.retryable)
}

const NO_ADDRESS = { nxdomain: 'the name does not exist (NXDOMAIN)', nodata: 'the name has no A or AAAA record' }

/** Without the brackets of an IPv6 literal and the dot of an absolute name. */
function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$|\.$/g, '')
}

/** RFC 8555 §8.3 leaves the choice; one IPv6 address, then IPv4, because half-configured IPv6 is common. */
function connectOrder(addresses: readonly string[]): string[] {
  const ipv6 = addresses.filter((address) => !isIPv4(address))
  const ipv4 = addresses.filter((address) => isIPv4(address))
  const order = ipv4.length > 0 ? [...ipv6.slice(0, 1), ...ipv4] : ipv6
  return order.slice(0, MAX_CONNECT_ATTEMPTS)
}

async function connectToOne(url: URL, addresses: readonly string[], attempt: Attempt): Promise<Socket | Failure> {
  const order = connectOrder(addresses)
  const port = portOf(url)
  const tlsServerName = url.protocol === 'https:' ? hostOf(url) : undefined
  let failure: HttpFailure = { kind: 'failed', phase: 'connect', reason: 'timed out' }

  for (const [index, address] of order.entries()) {
    const shareMs = attempt.deadline.remainingMs() / (order.length - index)
    const socket = await connect({ address, port, tlsServerName }, shareMs)
    if (!('kind' in socket)) {
      attempt.evidence.push({ step: 'connected', address, port })
      return socket
    }
    attempt.evidence.push({ step: 'not-connected', address, port, reason: socket.reason })
    failure = socket
  }
  return failConnection(attempt, failure)
}

const portOf = (url: URL) => (url.port === '' ? DEFAULT_PORTS[url.protocol as 'http:' | 'https:'] : Number(url.port))
const DEFAULT_PORTS = { 'http:': 80, 'https:': 443 }

/**
 * http may go to 80 or the port of the challenge, https to 443 or `httpsPort`: a redirect is for moving a web site, not
 * for reaching other services of the network that this server sits in.
 */
function redirectTarget(from: URL, location: string | undefined, attempt: Attempt): URL | Failure {
  if (location === undefined) return fail(attempt, 'incorrectResponse', 'redirect without a Location', true)
  const to = URL.canParse(location, from.href) ? new URL(location, from) : undefined
  if (!to) return fail(attempt, 'incorrectResponse', 'redirect to something that is not a URL', false)

  // Not asked for twice: a fragment is not sent, credentials are not used.
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

/** The last response: status 200 and the key authorization, with nothing but white space after it. */
function judge(response: HttpResponse, attempt: Attempt): ValidationVerdict {
  if (response.status !== 200) return fail(attempt, 'unauthorized', `status ${response.status} instead of 200`, true)
  if (response.isTooLong) {
    return fail(attempt, 'incorrectResponse', 'the body is longer than the key authorization', false)
  }
  const expected = Buffer.from(attempt.job.keyAuthorization, 'latin1')
  const body = withoutTrailingSpace(response.body)
  // The length is no secret, and timingSafeEqual wants it equal.
  if (body.length === expected.length && timingSafeEqual(body, expected))
    return { ok: true, evidence: attempt.evidence }
  return fail(attempt, 'incorrectResponse', 'the body is not the key authorization', false)
}

function withoutTrailingSpace(body: Buffer): Buffer {
  let end = body.length
  while (end > 0 && isSpace(body[end - 1]!)) end--
  return body.subarray(0, end)
}

/** Tab, line feed, vertical tab, form feed, carriage return, blank. */
const isSpace = (byte: number) => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d)

function failConnection(attempt: Attempt, { phase, reason }: HttpFailure): Failure {
  const during = { connect: 'could not connect', tls: 'no TLS connection', exchange: 'no complete response' }[phase]
  return fail(attempt, phase === 'tls' ? 'tls' : 'connection', `${during}: ${reason}`, true)
}

function fail(attempt: Attempt, problem: Failure['problem'], what: string, retryable: boolean): Failure {
  const { redirects, evidence, job } = attempt
  const where = redirects === 0 ? '' : ` (after ${redirects} redirect${redirects === 1 ? '' : 's'})`
  return { ok: false, problem, detail: `${challengeUrl(job)}: ${what}${where}`, retryable, evidence }
}
