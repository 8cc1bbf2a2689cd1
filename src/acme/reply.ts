/** Headers that every ACME response carries (RFC 8555 §6.5, §7.1; doc 1, Common response headers), and problems as replies. */

import type { HttpReply } from '../http/message.ts'
import type { Problem } from '../protocol/problem.ts'
import type { AcmeReply } from './endpoint.ts'

export interface ReplyContext {
  nonce: string
  directoryUrl: string
  requestId: string
  /** Sent with everything, such as X-Content-Type-Options. */
  securityHeaders: readonly (readonly [string, string])[]
}

const PROBLEM_TYPE = 'application/problem+json'

export function renderReply(reply: AcmeReply, context: ReplyContext): HttpReply {
  const headers: [string, string][] = [
    ['Replay-Nonce', context.nonce],
    ['Cache-Control', 'no-store'],
    ['Link', `<${context.directoryUrl}>;rel="index"`],
    ['X-Request-ID', context.requestId],
  ]
  if (reply.location !== undefined) headers.push(['Location', reply.location])
  if (reply.retryAfterSeconds !== undefined) headers.push(['Retry-After', String(reply.retryAfterSeconds)])
  for (const link of reply.links ?? []) headers.push(['Link', link])
  if (reply.body !== undefined) headers.push(['Content-Type', reply.contentType ?? 'application/json'])
  return {
    status: reply.status,
    headers: [...headers, ...context.securityHeaders],
    body: typeof reply.body === 'object' ? JSON.stringify(reply.body) : (reply.body ?? ''),
  }
}

export function problemReply(problem: Problem): AcmeReply {
  const { location, retryAfterSeconds, links } = problem.options
  return {
    status: problem.status,
    body: problem.toJSON(),
    contentType: PROBLEM_TYPE,
    ...(location !== undefined && { location }),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    ...(links !== undefined && { links }),
  }
}
