/** Headers that every ACME response carries (RFC 8555 §6.5, §7.1), and problems as replies. */

import type { FixedHeaders, Header } from '../http/header.ts'
import type { HttpReply } from '../http/message.ts'
import type { Problem } from '../shared/protocol/problem.ts'
import type { AcmeReply } from './endpoint.ts'

export interface ReplyContext {
  nonce: string
  requestId: string
  fixedHeaders: FixedHeaders
}

const PROBLEM_TYPE = 'application/problem+json'

/**
 * The headers of every response: those of `security`, such as X-Content-Type-Options, and ACME's
 * own.
 */
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
