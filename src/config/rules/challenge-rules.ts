/** Rules for challenge methods and their corroboration by perspectives. */

import { pythonClassAdvice } from '../../shared/lib/module-reference.ts'
import { caaIdentities, issuerDomainNames } from '../challenge-facts.ts'
import type { Config } from '../schema.ts'
import { atMost, not, type Rule } from './rule.ts'

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

/**
 * Normalizes a URL for comparison: host in lower case, no default port, no dot or slash at an end.
 */
function perspectiveUrl(text: string): string {
  const { host, pathname } = new URL(text)
  return host.replace(/\.(?=:|$)/, '') + pathname.replace(/\/+$/, '')
}
