/**
 * URLs that are sent as they are configured: in headers, JSON and certificates. All three take URIs,
 * which are ASCII (RFC 9110 §10.2.2, RFC 8555 §7.1.1, RFC 5280 §4.2.1.6).
 */

import type { Config } from '../schema.ts'
import type { Rule } from './rule.ts'

const SENT: readonly (readonly [path: string, values: (c: Config) => readonly (string | null)[]])[] = [
  ['server.external_url', (c) => [c.server.external_url]],
  ['acme.website_url', (c) => [c.acme.website_url]],
  ['tos.url', (c) => [c.tos.url]],
  ['tos.instructions_url', (c) => [c.tos.instructions_url]],
  ['ca.aia_issuer_urls', (c) => c.ca.aia_issuer_urls],
  ['ca.crl_url', (c) => [c.ca.crl_url]],
]

const NOT_ASCII = /[^\x21-\x7e]/

/** The URL parser writes U-labels as the A-labels that clients look up (RFC 5890 §2.3.2.1). */
function remedy(url: string): string {
  const [, authority = ''] = url.split('/').filter((part) => part !== '')
  return NOT_ASCII.test(authority)
    ? `write its host as ${new URL(url).hostname}`
    : 'write other characters in its path in percent-encoding'
}

export const URLS: readonly Rule[] = SENT.map(([path, values]) => ({
  path,
  check(config) {
    const wrong = values(config).find((url) => url !== null && NOT_ASCII.test(url))
    return wrong ? `is sent to clients, and URLs are ASCII; ${remedy(wrong)}` : undefined
  },
}))
