/** Validation of identifiers: `challenges`, and `dns` with the name servers. */

import { isIP } from 'node:net'
import { domainToASCII } from 'node:url'
import * as z from 'zod/v4'
import { keysOf } from '../../shared/lib/encoding.ts'
import { parseModuleReference } from '../../shared/lib/module-reference.ts'
import { CHALLENGE_TYPES, isChallengeType, MAX_ENABLED_METHODS } from '../../shared/protocol/challenge.ts'
import { EXTENSION_DEFAULTS, MAX_ISSUER_DOMAIN_NAMES } from '../challenge-facts.ts'
import {
  checkedText,
  choice,
  entry,
  flag,
  isDomain,
  isNetwork,
  list,
  optionalText,
  optionalWhole,
  port,
  resolverList,
  seconds,
  section,
  setting,
  whole,
} from '../field.ts'

const isMethod = (value: string) =>
  isChallengeType(value) || (value.startsWith('ext:') && parseModuleReference(value.slice(4)) !== undefined)

const timeout = (value: number) => seconds(1, value, 'Time one attempt may take.')
const maxRetries = (count: number) =>
  setting(whole(0, count), 'Attempts after the first before the challenge fails for good.')
const autoValidate = () =>
  setting(
    flag(true),
    'Validate as soon as the client asks. Off: an enabled `challenges.background_worker` of any instance does it.',
  )

/**
 * Loopback and link-local addresses, and other places of cloud metadata (AWS over IPv6, Azure, Alibaba). Other private
 * addresses are allowed, because an internal CA serves them.
 */
const blockedNetworks = () =>
  setting(
    list(checkedText('an IP address or a network such as 10.0.0.0/8', isNetwork), [
      '127.0.0.0/8',
      '::1/128',
      '169.254.0.0/16',
      'fe80::/10',
      'fd00:ec2::254/128',
      '168.63.129.16/32',
      '100.100.100.200/32',
    ]),
    'Networks that are never connected to; empty switches the guard off.',
  )

const Http01 = section('http-01 (RFC 8555 §8.3).', {
  port: setting(port(80), 'Port that is asked; redirects to http may go to it and to 80.'),
  https_port: setting(port(443), 'Port that redirects to https may go to beside 443.'),
  timeout_seconds: timeout(10),
  max_retries: maxRetries(3),
  auto_validate: autoValidate(),
  max_response_bytes: setting(z.int().min(1024).max(10485760).default(1048576), 'Largest answer that is read.', {
    unit: 'bytes',
  }),
  blocked_networks: blockedNetworks(),
})

/** Settings that the DNS methods share. */
const dnsMethod = () => ({
  resolvers: setting(
    resolverList(),
    'Name servers of this method; empty uses `dns.resolvers`. `dns.zones` overrides both.',
  ),
  timeout_seconds: timeout(30),
  propagation_wait_seconds: seconds(0, 10, 'How long the first attempt waits for a record, within timeout_seconds.'),
  max_retries: maxRetries(5),
  auto_validate: autoValidate(),
  require_dnssec: setting(flag(false), "Accept only answers with a validating resolver's AD bit."),
  require_authoritative: setting(
    flag(false),
    'Ask the name servers of the zone itself; all servers that answer must agree.',
  ),
})

const Dns01 = section('dns-01 (RFC 8555 §8.4).', dnsMethod())

const DnsAccount01 = section('dns-account-01 (draft-ietf-acme-dns-account-label).', dnsMethod())

const TlsAlpn01 = section('tls-alpn-01 (RFC 8737).', {
  port: setting(port(443), 'Port that is asked.'),
  timeout_seconds: timeout(10),
  max_retries: maxRetries(3),
  auto_validate: autoValidate(),
  blocked_networks: blockedNetworks(),
})

/** Normal form of a name: trimmed, no final dot, A-labels, lower case; empty for an invalid domain name. */
const normaliseDomain = (value: string) => domainToASCII(value.trim().replace(/\.$/, '')).toLowerCase()

const DnsPersist01 = section('dns-persist-01 (draft-ietf-acme-dns-persist).', {
  issuer_domain_names: setting(
    z
      .array(checkedText('a domain name', (value) => isDomain(normaliseDomain(value))))
      .max(MAX_ISSUER_DOMAIN_NAMES)
      .default(() => [])
      .transform((names) => names.map(normaliseDomain)),
    'Names of this service in records; empty uses `acme.caa_identities`, else the host of `server.external_url`.',
  ),
  draft: setting(
    choice(['01', '02'], '01'),
    'Version of the draft. `02` adds its names, and permits hashed account URIs.',
    { expects: '"01" or "02", in quotes' },
  ),
  ...dnsMethod(),
  allow_wildcard_policy: setting(flag(true), 'Records with `policy=wildcard` authorize wildcard names.'),
  allow_subdomain_policy: setting(flag(false), 'Records with `policy=wildcard` authorize the names below as well.'),
})

const Extension = z.strictObject({
  timeout_seconds: timeout(EXTENSION_DEFAULTS.timeout_seconds),
  max_retries: maxRetries(EXTENSION_DEFAULTS.max_retries),
  settings: setting(
    z.record(z.string(), z.unknown()).default(() => ({})),
    'Settings that the module gets when it is loaded.',
  ),
})

/** Regions of Regional Internet Registries (BR 3.2.2.9 requires corroboration from two of them). */
const REGIONS = ['afrinic', 'apnic', 'arin', 'lacnic', 'ripe'] as const

const Perspective = entry('One perspective.', {
  name: setting(
    checkedText('a name of letters, digits, ".", "_" and "-"', (value) => /^[A-Za-z0-9._-]{1,64}$/.test(value)),
    'Its name in evidence, log and metrics.',
  ),
  url: setting(
    checkedText('an https:// URL without query', isPerspectiveUrl),
    'URL of its Open MPIC API; `/mpic` is added.',
  ),
  region: setting(z.enum(REGIONS).nullable().default(null), 'Regional Internet Registry of its region.'),
  token: setting(optionalText(), 'Bearer token that it asks for.', { secret: true }),
  ca_path: setting(optionalText(), "PEM file with the CAs to trust instead of the system's."),
  client_cert_path: setting(optionalText(), "PEM file with this service's client certificate."),
  client_key_path: setting(optionalText(), 'PEM file with the key of that certificate.'),
})

function isPerspectiveUrl(value: string): boolean {
  if (!URL.canParse(value)) return false
  const { protocol, search, hash, username, password } = new URL(value)
  return protocol === 'https:' && search + hash + username + password === ''
}

const Corroboration = section('When the answers of `challenges.perspectives` are enough.', {
  timeout_seconds: seconds(1, 30, 'Time that the perspectives have for one check.'),
  max_non_corroborations: setting(
    optionalWhole(0),
    'How many may fail to corroborate; by default (BR 3.2.2.9) none of one, one of two to five, two of more.',
  ),
  min_regions: setting(
    whole(1, 1),
    'Regions in which corroborating perspectives must stand; BR 3.2.2.9 asks for 2. Perspectives without a region count as one.',
  ),
})

const BackgroundWorker = section('Recovery of lost validations.', {
  enabled: setting(
    flag(false),
    'Validate challenges that another running instance has had in processing for `stale_seconds`, and those of methods with `auto_validate` off.',
  ),
  poll_seconds: seconds(1, 10, 'Pause between two looks for such challenges.'),
  stale_seconds: seconds(
    1,
    300,
    'Time after which a challenge in processing counts as lost; at least twice the longest attempt.',
  ),
})

export const Challenges = section('Validation of identifiers.', {
  enabled: setting(
    z
      .array(checkedText(`one of ${keysOf(CHALLENGE_TYPES).join(', ')}, or ext: and a module`, isMethod))
      .min(1)
      .max(MAX_ENABLED_METHODS)
      .default(() => ['http-01']),
    'Methods offered to clients. `ext:./path/file.js#ExportName` or `ext:package#ExportName` is a validator module (docs/validators.md).',
  ),
  auto_accept: setting(
    flag(false),
    'Accept every identifier without a challenge. Needs enforced allowlists of accounts, or `--dev`.',
  ),
  retry_after_seconds: seconds(1, 3, 'Retry-After of challenges in processing.'),
  backoff_base_seconds: seconds(1, 5, 'Wait before the second attempt; doubles with each further one.'),
  backoff_max_seconds: seconds(1, 300, 'Longest wait between two attempts.'),
  max_concurrent: setting(z.int().min(2).max(20_000).default(2000), 'Validations at the same time.'),
  max_concurrent_per_account: setting(whole(1, 200), 'The share of one account; accounts take turns.'),
  max_concurrent_per_target: setting(whole(1, 10), 'The share of one name or address.'),
  max_waiting: setting(
    z.int().min(16).max(1_000_000).default(20_000),
    'Challenges that wait or run in one instance, at most a quarter from one account; more wait in the database.',
  ),
  http01: Http01,
  dns01: Dns01,
  tlsalpn01: TlsAlpn01,
  dnspersist01: DnsPersist01,
  dnsaccount01: DnsAccount01,
  extensions: setting(
    z.record(z.string(), Extension).default(() => ({})),
    'Validator modules, by the name their method has on the wire.',
  ),
  perspectives: setting(
    list(Perspective),
    'Remote perspectives (Open MPIC API) that must corroborate validations (docs/operations/validation.md).',
  ),
  corroboration: Corroboration,
  background_worker: BackgroundWorker,
})

const Zone = entry('One zone.', {
  zone: setting(
    checkedText('a domain name', (value) => isDomain(value.replace(/\.$/, ''))),
    'Name of the zone, for everything below too. The longest match counts.',
  ),
  resolvers: setting(resolverList(), 'Name servers asked for names of this zone.'),
  addresses: setting(
    list(checkedText('an IP address', (value) => isIP(value) !== 0)),
    'Fixed addresses of all names of the zone. With empty `resolvers`, no name server is asked.',
  ),
})

export const Dns = section('Name resolution for validation and CAA.', {
  resolvers: setting(resolverList(), 'Name servers for every look-up of validation; empty uses those of the system.'),
  timeout_seconds: seconds(1, 10, 'Time one look-up may take, with its aliases and retries.'),
  retries: setting(whole(0, 3), 'How many times name servers that stay silent are asked again.'),
  zones: setting(list(Zone), 'Zones with resolvers or addresses of their own, which override other lists.'),
})
