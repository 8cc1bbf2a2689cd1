/** The listener with its limits for clients, and the proxy in front of it: `server`, `proxy`, `security`. */

import { availableParallelism } from 'node:os'
import * as z from 'zod/v4'
import { PUBLIC_SUFFIX_LISTS } from '../../domain/identifier-policy.ts'
import { keysOf } from '../../shared/lib/encoding.ts'
import { SIGNATURE_ALGORITHMS } from '../../shared/pki/algorithms.ts'
import { MAX_LIST_LENGTH } from '../../shared/pki/der.ts'
import { normalizeDnsName } from '../../shared/protocol/identifier.ts'
import { EC_CURVES } from '../../shared/protocol/jwk.ts'
import { JWS_ALGORITHMS } from '../../shared/protocol/jws.ts'
import {
  checkedText,
  choice,
  entry,
  flag,
  isHttpUrl,
  isNetwork,
  list,
  optionalText,
  optionalWhole,
  port,
  seconds,
  section,
  setting,
  someOf,
  text,
  whole,
} from '../field.ts'

/** More front threads share one database and one signer without issuing more. */
const MAX_DEFAULT_WORKERS = 8

const WORKER_CLASSES = ['thread', 'sync', 'gthread', 'gevent'] as const

function isExternalUrl(value: string): boolean {
  if (!isHttpUrl(value)) return false
  const url = new URL(value)
  return url.search === '' && url.hash === '' && url.username === '' && url.password === ''
}

const Tls = section('TLS on the listening port; without it, plain HTTP for a proxy in front.', {
  cert_path: setting(optionalText(), 'PEM file with the server certificate and its chain.'),
  key_path: setting(optionalText(), 'PEM file with the private key of the server certificate.'),
  self_issued_names: setting(
    list(z.string().min(1)),
    'Names and addresses of a certificate that the service issues to itself, into the two files.',
  ),
})

const Overload = section('Behaviour when clients ask for more than the service can do.', {
  enabled: setting(
    flag(true),
    'Refuse requests with 503 and Retry-After while others wait too long, and slow addresses whose signatures fail.',
  ),
  target_delay_ms: setting(whole(10, 100), 'Time that requests may wait before new orders are refused.', {
    unit: 'milliseconds',
  }),
  max_connections: setting(
    whole(16, 8192),
    'Most open connections of all front threads. Needs as many file descriptors.',
  ),
})

export const Server = entry('The listener and the public address.', {
  external_url: setting(
    z.string().min(1).refine(isExternalUrl),
    'Base of every URL of the service; may contain a path.',
    { expects: 'an http:// or https:// URL without user, query or fragment, such as https://acme.example.com' },
  ),
  bind: setting(text('0.0.0.0'), 'Address to listen on.'),
  port: setting(port(8443), 'TCP port to listen on; all front threads share it.'),
  workers: setting(
    z
      .int()
      .min(1)
      .default(() => Math.min(MAX_DEFAULT_WORKERS, availableParallelism())),
    'Front threads. With PostgreSQL on the same machine, one fewer than cores is faster.',
    { defaultText: `number of cores, at most ${MAX_DEFAULT_WORKERS}` },
  ),
  worker_class: setting(z.enum(WORKER_CLASSES).default('thread'), 'Kind of front worker; all names mean `thread`.'),
  timeout: seconds(
    1,
    30,
    'Time a request or an SQL statement may take, then 503. Finalize answers after half of it at the latest.',
  ),
  graceful_timeout: seconds(0, 30, 'Time that requests get to finish at a stop.'),
  drain_seconds: seconds(
    0,
    0,
    'Time after SIGTERM with `/readyz` at 503 in which requests are served, one a connection, for balancers that do not repeat them.',
  ),
  keepalive: setting(
    optionalWhole(0),
    '0 closes a connection after each reply. Otherwise idle connections close after ten seconds.',
    { unit: 'seconds' },
  ),
  max_requests: setting(whole(0, 0), 'Requests after which a front thread is replaced; 0 is never.'),
  max_requests_jitter: setting(whole(0, 0), 'Random number up to this, added to `max_requests` per thread.'),
  overload: Overload,
  tls: Tls,
})

export const ReverseProxy = section('The reverse proxy in front of the service.', {
  enabled: setting(flag(false), 'Believe the forwarded headers of trusted proxies.'),
  trusted_proxies: setting(
    list(checkedText('an IP address or a network such as 10.0.0.0/8', isNetwork)),
    'Addresses and networks of the proxies to believe.',
  ),
  forwarded_for_header: setting(text('X-Forwarded-For'), 'Header with the chain of client addresses.'),
  forwarded_proto_header: setting(text('X-Forwarded-Proto'), 'Header with the scheme that the client used.'),
})

/** Verification time of an RSA signature grows with the key; the reference implementation stops at 16384 bits. */
const MAX_RSA_BITS = 16384

const limit = (requests: number, windowSeconds: number, keyedBy: string) =>
  section(`Counted per ${keyedBy}.`, {
    requests: setting(whole(1, requests), 'Requests allowed within the window.', { reload: 'live' }),
    window_seconds: seconds(1, windowSeconds, 'Length of the window.', { reload: 'live' }),
  })

const RateLimits = section('Request limits of the ACME interface.', {
  enabled: setting(flag(true), 'Enforce the limits below.', { reload: 'live' }),
  backend: setting(choice(['memory', 'database'], 'memory'), 'Where the counters are kept.', { reload: 'live' }),
  new_nonce: limit(100, 60, 'client address'),
  new_account: limit(10, 3600, 'client address'),
  new_order: limit(300, 3600, 'client address'),
  new_order_per_identifier: limit(
    50,
    604800,
    'identifier, all accounts together; finalize counts, new-order only checks',
  ),
  challenge: limit(60, 60, 'client address'),
  challenge_validation: limit(30, 60, 'account'),
  finalize: limit(300, 60, 'account'),
  key_change: limit(10, 86400, 'account'),
  account_orders: limit(60, 60, 'account, for pages of the list of its orders'),
  account_update: limit(20, 3600, 'account, for changes of its contacts'),
  revoke_cert: limit(60, 60, 'client address, for revocations signed by the key of a certificate'),
  gc_interval_seconds: seconds(1, 300, 'Pause between two removals of old counters.', { reload: 'live' }),
  gc_max_age_seconds: seconds(1, 7200, 'Age at which a counter that limits nothing is removed.', { reload: 'live' }),
})

/** A pattern that matches no name would silently forbid nothing. */
const NAME_PATTERN = checkedText(
  'a domain name such as example.org or *.example.org',
  (value) => normalizeDnsName(value.replace(/\.$/, '')).ok,
)

const IdentifierPolicy = section('Which names and addresses may be ordered.', {
  allowed_domains: setting(
    list(NAME_PATTERN),
    'Names that may be ordered; `*.x` is x, everything below, and wildcards. Empty allows all but `.onion` and `.arpa`.',
  ),
  forbidden_domains: setting(
    list(NAME_PATTERN, ['*.localhost']),
    'Names that may not be ordered, nor wildcards that cover them; `*.x` is x and everything below.',
  ),
  allow_wildcards: setting(flag(true), 'Allow `*.` names.'),
  allow_ip: setting(flag(false), 'Allow IP addresses as identifiers (RFC 8738).'),
  allow_single_label: setting(flag(false), 'Allow names without a dot.'),
  max_identifiers_per_order: setting(
    z.int().min(1).max(MAX_LIST_LENGTH).default(100),
    'Most identifiers one order may name.',
  ),
  public_suffix_list: setting(
    choice(PUBLIC_SUFFIX_LISTS, 'none'),
    "`builtin` refuses wildcards right below a public suffix (`*.co.uk`), by the ICANN section of this release's list. A dns-persist-01 record at or above one then counts for no name below it.",
  ),
  max_identifier_value_length: setting(whole(1, 253), 'Longest identifier.', { unit: 'bytes' }),
  enforce_account_allowlist: setting(
    flag(false),
    'Limit each account to the identifiers that an administrator assigned.',
  ),
})

export const Security = section('Limits on the requests of clients.', {
  allowed_algorithms: setting(someOf(keysOf(JWS_ALGORITHMS), ['ES256', 'RS256']), 'Signature algorithms of requests.'),
  min_rsa_key_size: setting(whole(2048, 2048), 'Smallest RSA account key.', { unit: 'bits' }),
  max_rsa_key_size: setting(z.int().min(2048).max(MAX_RSA_BITS).default(8192), 'Largest RSA account key.', {
    unit: 'bits',
  }),
  allowed_ec_curves: setting(someOf(keysOf(EC_CURVES), ['P-256', 'P-384']), 'Curves of account keys.'),
  max_request_body_bytes: setting(whole(1024, 65536), 'Largest request body.', { unit: 'bytes' }),
  allowed_csr_signature_algorithms: setting(
    someOf(keysOf(SIGNATURE_ALGORITHMS), [
      'SHA256withRSA',
      'SHA384withRSA',
      'SHA512withRSA',
      'SHA256withECDSA',
      'SHA384withECDSA',
      'SHA512withECDSA',
    ]),
    'Signature algorithms of CSRs.',
  ),
  min_csr_rsa_key_size: setting(whole(2048, 2048), 'Smallest RSA key in a CSR.', { unit: 'bits' }),
  min_csr_ec_key_size: setting(whole(224, 256), 'Smallest elliptic-curve key in a CSR.', {
    unit: 'bits',
  }),
  blocked_keys_file: setting(
    optionalText(),
    'File of keys that no request and no account may have: a hexadecimal SHA-256 of a SubjectPublicKeyInfo a line, at most 1,000,000; `#` comments. Each reading replaces the list of all instances; accounts with these keys are revoked.',
    { reload: 'live' },
  ),
  hsts_max_age_seconds: seconds(0, 63072000, 'Lifetime of the Strict-Transport-Security header; 0 sends none.'),
  require_csr_profile: setting(flag(false), 'Refuse finalization for accounts without an assigned CSR profile.'),
  rate_limits: RateLimits,
  identifier_policy: IdentifierPolicy,
})
