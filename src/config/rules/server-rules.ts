/**
 * Rules about what clients meet: the listener, the proxies in front of it, accounts and terms of service, and challenge
 * methods with their perspectives; and about the database.
 */

import { pythonClassAdvice } from '../../shared/lib/module-reference.ts'
import { externalPathOf } from '../../shared/protocol/urls.ts'
import { caaIdentities, issuerDomainNames } from '../challenge-facts.ts'
import type { Config } from '../schema.ts'
import { atMost, not, type Rule, required } from './rule.ts'

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

/**
 * URLs that are sent as they are configured: in headers, JSON and certificates. All three take URIs,
 * which are ASCII (RFC 9110 §10.2.2, RFC 8555 §7.1.1, RFC 5280 §4.2.1.6).
 */
export const URLS: readonly Rule[] = SENT.map(([path, values]) => ({
  path,
  check(config) {
    const wrong = values(config).find((url) => url !== null && NOT_ASCII.test(url))
    return wrong ? `is sent to clients, and URLs are ASCII; ${remedy(wrong)}` : undefined
  },
}))

export const SERVER: readonly Rule[] = [
  not(
    'server.external_url',
    [],
    (c) => c.server.external_url.endsWith('/'),
    'ends with a slash; leave the final slash out',
  ),
  required('server.tls.key_path', (c) => c.server.tls.cert_path !== null, 'server.tls.cert_path needs it', [
    'server.tls.cert_path',
  ]),
  required('server.tls.cert_path', (c) => c.server.tls.key_path !== null, 'server.tls.key_path needs it', [
    'server.tls.key_path',
  ]),
  not(
    'server.tls.self_issued_names',
    ['server.tls.cert_path', 'server.tls.key_path'],
    (c) => c.server.tls.self_issued_names.length > 0 && c.server.tls.cert_path === null,
    'needs server.tls.cert_path and key_path: the files into which the service writes the certificate it issues to itself',
  ),
  not(
    'proxy.trusted_proxies',
    ['proxy.enabled'],
    (c) => c.proxy.enabled && c.proxy.trusted_proxies.length === 0,
    'is empty; proxy.enabled needs at least one trusted address or network',
  ),
  not(
    'database.sslrootcert',
    ['database.sslmode'],
    (c) => c.database.sslrootcert !== null && !/^verify/.test(c.database.sslmode),
    (c) => `is set, and database.sslmode ${c.database.sslmode} checks no certificate; must be verify-ca or verify-full`,
  ),
  atMost('database.min_connections', 'database.max_connections'),
]

export const ACME: readonly Rule[] = [
  atMost('security.min_rsa_key_size', 'security.max_rsa_key_size'),
  not(
    'acme.eab_required',
    ['acme.eab_key_file', 'admin_api.token_secret'],
    (c) => c.acme.eab_required && c.acme.eab_key_file === null && c.admin_api.token_secret === null,
    'is true, and there is no secret to store binding credentials under; set acme.eab_key_file or admin_api.token_secret',
  ),
  {
    path: 'acme.paths',
    check(c) {
      const paths = Object.values(c.acme.paths)
      const twice = paths.find((path, index) => paths.indexOf(path) !== index)
      return twice === undefined ? undefined : `gives ${twice} to two resources; each needs a path of its own`
    },
  },
  {
    path: 'acme.directory_aliases',
    check(c) {
      const below = [...Object.values(c.acme.paths), c.ari.path, c.crl.path].map((path) => `${c.api.base_path}${path}`)
      const external = externalPathOf(c.server.external_url)
      const taken = [
        ...below,
        ...below.map((path) => `${external}${path}`),
        c.metrics.path,
        ...(c.api.roots_path === null ? [] : [c.api.roots_path, `${external}${c.api.roots_path}`]),
        '/livez',
        '/healthz',
        '/readyz',
      ]
      const twice = c.acme.directory_aliases.find((path) => taken.includes(path))
      return twice === undefined ? undefined : `has ${twice}, which is the path of a resource; leave it out`
    },
  },
  required('tos.url', (c) => c.tos.require_agreement, 'tos.require_agreement needs terms to agree to', [
    'tos.require_agreement',
  ]),
  not(
    'tos.version',
    ['tos.require_agreement'],
    (c) => c.tos.version !== null && !c.tos.require_agreement,
    'is set, but tos.require_agreement is false; switch it on, or leave the version out',
  ),
]

const persists = (c: Config) => c.challenges.enabled.includes('dns-persist-01')

const PYTHON_VALIDATOR = { things: 'validators', folder: 'validators', further: 'and port it (docs/validators.md)' }

export const CHALLENGES: readonly Rule[] = [
  {
    path: 'challenges.enabled',
    check({ challenges: { enabled } }) {
      const advice = enabled.map((method) => pythonClassAdvice(method.replace(/^ext:/, ''), PYTHON_VALIDATOR))
      const place = advice.findIndex((sentence) => sentence !== undefined)
      const message = advice[place]
      return message === undefined ? undefined : { path: `challenges.enabled[${place}]`, message }
    },
  },
  not(
    'challenges.dnspersist01.issuer_domain_names',
    ['challenges.enabled', 'acme.caa_identities', 'server.external_url'],
    (c) => persists(c) && issuerDomainNames(c).length === 0,
    'is empty, and the host of server.external_url is no domain name; dns-persist-01 needs at least one issuer domain name',
  ),
  {
    path: 'challenges.dnspersist01.issuer_domain_names',
    reads: ['challenges.enabled', 'challenges.dnspersist01.draft', 'acme.caa_identities'],
    // draft-ietf-acme-dns-persist-02 §3.2: clients refuse such a challenge.
    check(c) {
      const identities = caaIdentities(c.acme.caa_identities)
      if (!persists(c) || c.challenges.dnspersist01.draft === '01' || identities.length === 0) return undefined
      const strange = issuerDomainNames(c).find((name) => !identities.includes(name))
      return strange && `has ${strange}, which acme.caa_identities lacks; draft 02 wants every name in both`
    },
  },
  not(
    'challenges.auto_accept',
    ['security.identifier_policy.enforce_account_allowlist'],
    (c) => c.challenges.auto_accept && !c.security.identifier_policy.enforce_account_allowlist,
    'is true: anybody would get any certificate; enable security.identifier_policy.enforce_account_allowlist, validate, or try things out with --dev',
    { inDevelopment: true },
  ),
  {
    path: 'challenges.perspectives',
    reads: ['challenges.enabled'],
    check: ({ challenges: { perspectives, enabled } }) => {
      const alone = enabled.find((type) => type === 'dns-persist-01' || type.startsWith('ext:'))
      if (perspectives.length === 0 || alone === undefined) return undefined
      return `cannot corroborate ${alone}, for which the Open MPIC API has no name; take it out of challenges.enabled`
    },
  },
  {
    path: 'challenges.perspectives',
    check({ challenges: { perspectives } }) {
      const names = perspectives.map(({ name }) => name)
      const twice = names.find((name, index) => names.indexOf(name) !== index)
      if (twice !== undefined) return `has two perspectives with the name ${twice}; each needs its own`
      const urls = perspectives.map(({ url }) => perspectiveUrl(url))
      const again = perspectives.find((_, index) => urls.indexOf(urls[index] as string) !== index)
      if (again) return `has the URL of ${again.name} twice: one perspective may have one vote (BR 3.2.2.9)`
      const open = perspectives.find(({ token, client_cert_path }) => token === null && client_cert_path === null)
      if (open) return `has no way to show ${open.name} who asks; give token, or client_cert_path and client_key_path`
      const half = perspectives.find((one) => (one.client_cert_path === null) !== (one.client_key_path === null))
      return half && `has only one of client_cert_path and client_key_path for ${half.name}`
    },
  },
  not(
    'challenges.corroboration.max_non_corroborations',
    ['challenges.perspectives'],
    ({ challenges: { perspectives, corroboration } }) =>
      perspectives.length > 0 && (corroboration.max_non_corroborations ?? 0) >= perspectives.length,
    'leaves no perspective that must corroborate; must be less than the number of perspectives',
  ),
  not(
    'challenges.corroboration.min_regions',
    ['challenges.perspectives'],
    ({ challenges: { perspectives, corroboration } }) =>
      perspectives.length > 0 && new Set(perspectives.map(({ region }) => region)).size < corroboration.min_regions,
    'is more than the perspectives have regions, so nothing could be corroborated',
  ),
  atMost('challenges.backoff_base_seconds', 'challenges.backoff_max_seconds'),
]

/** Normalizes a URL for comparison: host in lower case, no default port, no dot or slash at an end. */
function perspectiveUrl(text: string): string {
  const { host, pathname } = new URL(text)
  return host.replace(/\.(?=:|$)/, '') + pathname.replace(/\/+$/, '')
}
