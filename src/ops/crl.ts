/**
 * GET and HEAD of a CRL: DER from memory, with cache headers (RFC 5280 §4.2.1.13, RFC 9110 §13).
 */

import type { Header, HttpReply, HttpRequest } from '../http/message.ts'

export interface CrlDocument {
  etag: string
  thisUpdateMs: number
  nextUpdateMs: number
  der: Buffer
}

/** Request headers that only CRLs need. */
export const CRL_REQUEST_HEADERS = ['if-none-match', 'if-modified-since'] as const

const CONTENT_TYPE = 'application/pkix-crl'
const NO_BODY = Buffer.alloc(0)

/**
 * @param maxAgeSeconds how long a cache may reuse the list; a list that expires earlier is kept
 * only until then
 */
export function crlReply(
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
    ['Last-Modified', new Date(crl.thisUpdateMs).toUTCString()],
    ['Cache-Control', `public, max-age=${cachedSeconds}`],
  ]
  if (isUnchanged(http, crl)) return { status: 304, headers: [...cacheable, ...headers], body: NO_BODY }
  return { status: 200, headers: [['Content-Type', CONTENT_TYPE], ...cacheable, ...headers], body: crl.der }
}

/** RFC 9110 §13.2.2: the date matters only without a list of tags. */
function isUnchanged(http: HttpRequest, { etag, thisUpdateMs }: CrlDocument): boolean {
  const tags = http.header('if-none-match')
  if (tags !== undefined) {
    return tags.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag)
  }
  const since = Date.parse(http.header('if-modified-since') ?? '')
  return since >= thisUpdateMs
}
