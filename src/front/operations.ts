/** The resources of a front beside ACME: probes, metrics, CRLs and the trust bundle. */

import type { AcmeApplication } from '../acme/application.ts'
import type { AdminGate } from '../admin/admin-gate.ts'
import { type HealthReport, isHealthy, unreadiness } from '../domain/health.ts'
import type { Header, HttpReply, HttpRequest } from '../http/http-message.ts'
import { METRICS_CONTENT_TYPE } from '../ops/metrics.ts'
import type { TrustBundle } from '../services/trust-bundle.ts'
import { CLOCKS_DIFFER_MS } from '../shared/lib/clocks.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { Exchange } from './exchange.ts'

export interface OperationsOptions {
  version: string
  /** Headers of every response, by the scheme of the client's connection. */
  securityHeaders: Record<'http' | 'https', readonly Header[]>
  /** Undefined when metrics are off. Below the path of the external URL. */
  metricsPath(): string | undefined
  /** Asks for the token of an administrator (`metrics.auth_required`). */
  metricsGuard: Pick<AdminGate, 'refuse'> | undefined
  health(): Promise<HealthReport>
  exposition(): Promise<string>
  /** Undefined when no CRL is published. */
  crl: FrontCrls | undefined
  roots: FrontRoots | undefined
}

/** The bundle; undefined while the issuers are not known. */
type FrontRoots = () => TrustBundle | undefined

export interface FrontCrls {
  /** Finds a list by name; the empty name means the default issuer's list. */
  find(name: string): CrlDocument | undefined
  /** Whether a later list was signed than the database has: it is published soon, and clients may have seen it. */
  isWithheld(name: string): boolean
  /** Whether this issuer has no complete list (`crl.complete`). */
  isInParts(name: string): boolean
  maxAgeSeconds: number
}

/** The first list of an issuer takes about a second to build. */
const NO_CRL_RETRY_SECONDS = 2

const IN_PARTS =
  'the CRL of this issuer is published in parts; each certificate names its part in the extension cRLDistributionPoints'

/** @returns undefined when the path is none of these */
export function operationsReply(
  exchange: Exchange,
  options: OperationsOptions,
): HttpReply | Promise<HttpReply> | undefined {
  if (!isRead(exchange)) return undefined
  const headers = headersOf(exchange, options)
  switch (exchange.localPath) {
    case '/livez':
      return livezReply(options.version, exchange, headers)
    case '/healthz':
      return options.health().then((report) => healthzReply(report, headers))
    case '/readyz':
      return options.health().then((report) => readyzReply(report, headers))
    case options.metricsPath():
      return metricsReply(exchange, options, headers)
    default:
      return undefined
  }
}

/** Tells the client who it is taken for, which shows what a proxy makes of its address. */
function livezReply(version: string, { address, scheme }: Exchange, headers: readonly Header[]): HttpReply {
  return jsonReply(200, { alive: true, version, client: { address, scheme } }, headers)
}

/** Shows everything except the pool. Workers, mail, name servers and the audit log never change the status code. */
function healthzReply(report: HealthReport, headers: readonly Header[]): HttpReply {
  const healthy = isHealthy(report)
  const { pool: _, ...shown } = report
  return jsonReply(healthy ? 200 : 503, { status: healthy ? 'ok' : 'degraded', ...shown }, headers)
}

function readyzReply(report: HealthReport, headers: readonly Header[]): HttpReply {
  const reason = unreadiness(report)
  const pool = report.checks.database === 'pool_exhausted' ? { pool: report.pool } : {}
  return reason === undefined
    ? jsonReply(200, { ready: true }, headers)
    : jsonReply(503, { ready: false, reason, ...pool }, headers)
}

function jsonReply(status: number, body: object, headers: readonly Header[]): HttpReply {
  return {
    status,
    headers: [['Content-Type', 'application/json'], ['Cache-Control', 'no-store'], ...headers],
    body: JSON.stringify(body),
  }
}

async function metricsReply(
  exchange: Exchange,
  { metricsGuard, securityHeaders, exposition }: OperationsOptions,
  headers: readonly Header[],
): Promise<HttpReply> {
  const refusal = metricsGuard && (await metricsGuard.refuse(exchange, securityHeaders[exchange.scheme]))
  if (refusal) return refusal
  return {
    status: 200,
    headers: [['Content-Type', METRICS_CONTENT_TYPE], ['Cache-Control', 'no-store'], ...headers],
    body: await exposition(),
  }
}

export function crlReplyTo(
  name: string,
  exchange: Exchange,
  options: OperationsOptions,
  acme: Pick<AcmeApplication, 'problem' | 'notFound'>,
): HttpReply {
  if (!isRead(exchange)) {
    const allow = ['GET', 'HEAD']
    return acme.problem(new Problem('malformed', 'a CRL is fetched with GET', { status: 405, allow }), exchange)
  }
  const found = options.crl?.find(name)
  if (found) {
    const { http, now } = exchange
    return crlReply(http, found, options.crl?.maxAgeSeconds ?? 0, now, headersOf(exchange, options))
  }
  const wait = { status: 503, retryAfterSeconds: NO_CRL_RETRY_SECONDS }
  if (options.crl?.isWithheld(name))
    return acme.problem(new Problem('serverInternal', 'this CRL is being built', wait), exchange)
  if (options.crl?.isInParts(name)) return acme.problem(new Problem('malformed', IN_PARTS, { status: 404 }), exchange)
  if (name !== '') return acme.notFound(exchange)
  return acme.problem(new Problem('serverInternal', 'the first CRL is still being built', wait), exchange)
}

const isRead = ({ http }: Exchange): boolean => http.method === 'GET' || http.method === 'HEAD'

const headersOf = (
  { requestId, scheme }: Exchange,
  { securityHeaders }: Pick<OperationsOptions, 'securityHeaders'>,
): Header[] => [['X-Request-ID', requestId], ...securityHeaders[scheme]]

/** GET and HEAD of a CRL: DER from memory, with cache headers (RFC 5280 §4.2.1.13, RFC 9110 §13). */
export interface CrlDocument {
  etag: string
  thisUpdateMs: number
  nextUpdateMs: number
  der: Buffer
}

/** Request headers that only CRLs and roots need. */
export const CACHE_REQUEST_HEADERS = ['if-none-match', 'if-modified-since'] as const

const CONTENT_TYPE = 'application/pkix-crl'
const NO_BODY = Buffer.alloc(0)

/** @param maxAgeSeconds how long a cache may reuse the list; a list that expires earlier is kept only until then */
function crlReply(
  http: HttpRequest,
  crl: CrlDocument,
  maxAgeSeconds: number,
  now: Date,
  headers: readonly Header[],
): HttpReply {
  const leftSeconds = Math.floor((crl.nextUpdateMs - now.getTime()) / 1000)
  const cachedSeconds = Math.max(0, Math.min(maxAgeSeconds, leftSeconds))
  const cacheable: Header[] = [
    ['ETag', crl.etag],
    // No time that has not come (RFC 9110 §8.8.2.1).
    ['Last-Modified', new Date(Math.min(crl.thisUpdateMs, now.getTime())).toUTCString()],
    ['Cache-Control', `public, max-age=${cachedSeconds}`],
  ]
  if (isUnchanged(http, crl, now)) return { status: 304, headers: [...cacheable, ...headers], body: NO_BODY }
  return { status: 200, headers: [['Content-Type', CONTENT_TYPE], ...cacheable, ...headers], body: crl.der }
}

/** RFC 9110 §13.2.2: the date matters only without a list of tags. One that has not come is of a clock that was ahead. */
function isUnchanged(http: HttpRequest, { etag, thisUpdateMs }: CrlDocument, now: Date): boolean {
  const tags = http.header('if-none-match')
  if (tags !== undefined) return hasTag(tags, etag)
  const since = Date.parse(http.header('if-modified-since') ?? '')
  return since >= thisUpdateMs && since <= now.getTime() + CLOCKS_DIFFER_MS
}

/** @param tags the header If-None-Match */
function hasTag(tags: string | undefined, etag: string): boolean {
  return tags?.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag) ?? false
}

/** step-ca and others send it; application/pem-certificate-chain would promise an order (RFC 8555 §9.1). */
const ROOTS_CONTENT_TYPE = 'application/x-pem-file'
/** A new root is handed out long before it is used. */
const ROOTS_MAX_AGE_SECONDS = 3600
const NO_ROOT =
  'the chains of the issuers contain no root; the operator of this service can name a file with it in api.roots_file'
const UNKNOWN = 'the signer has not named its issuers yet; try again soon'
/** A connection to a signer that runs takes milliseconds. */
const UNKNOWN_RETRY_SECONDS = 2

/** GET and HEAD of the trust bundle (`api.roots_path`), from memory. */
export function rootsReplyTo(
  exchange: Exchange,
  options: Pick<OperationsOptions, 'securityHeaders' | 'roots'>,
  acme: Pick<AcmeApplication, 'problem'>,
): HttpReply {
  const refuse = (...problem: ConstructorParameters<typeof Problem>) => acme.problem(new Problem(...problem), exchange)
  if (!isRead(exchange))
    return refuse('malformed', 'roots are fetched with GET', { status: 405, allow: ['GET', 'HEAD'] })
  const bundle = options.roots?.()
  if (!bundle) return refuse('serverInternal', UNKNOWN, { status: 503, retryAfterSeconds: UNKNOWN_RETRY_SECONDS })
  const { pem, etag } = bundle
  if (pem === '') return refuse('malformed', NO_ROOT, { status: 404 })
  const headers: Header[] = [
    ['ETag', etag],
    ['Cache-Control', `public, max-age=${ROOTS_MAX_AGE_SECONDS}`],
    ...headersOf(exchange, options),
  ]
  if (hasTag(exchange.http.header('if-none-match'), etag)) return { status: 304, headers, body: '' }
  return { status: 200, headers: [['Content-Type', ROOTS_CONTENT_TYPE], ...headers], body: pem }
}
