/** Headers of every response (docs/decisions/health-and-headers.md). */

import { randomUUID } from 'node:crypto'

import type { Header } from './header.ts'

const ALWAYS: readonly Header[] = [
  ['X-Content-Type-Options', 'nosniff'],
  ['X-Frame-Options', 'DENY'],
  ['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"],
]

/** Headers by the client's scheme. HSTS must not be sent over plain HTTP (RFC 6797 §7.2). */
export function createSecurityHeaders(hstsMaxAgeSeconds: number): Record<'http' | 'https', readonly Header[]> {
  const hsts: Header = ['Strict-Transport-Security', `max-age=${hstsMaxAgeSeconds}; includeSubDomains`]
  return { http: ALWAYS, https: hstsMaxAgeSeconds > 0 ? [...ALWAYS, hsts] : ALWAYS }
}

const VISIBLE_ASCII = /^[\x21-\x7e]{1,128}$/

/** The client's id when it is safe in a header and a log, else a new one. */
export function requestIdFor(sent: string | undefined): string {
  return sent !== undefined && VISIBLE_ASCII.test(sent) ? sent : randomUUID()
}
