/** The certificate authority: backends, signer, profiles and content of certificates (`ca`), and `crl`. */

import * as z from 'zod/v4'
import { SUBJECT_KEY_TYPES } from '../../domain/certificate-profile.ts'
import { isCronExpression } from '../../shared/lib/cron.ts'
import { keysOf } from '../../shared/lib/encoding.ts'
import { ATTRIBUTE_SHORT_NAMES, DOMAIN_VALIDATED, EXTENDED_KEY_USAGES, KEY_USAGES } from '../../shared/pki/oids.ts'
import {
  checkedText,
  choice,
  EMAIL,
  entry,
  flag,
  HASHES,
  HTTP_URL,
  httpUrl,
  isEmail,
  isHttpUrl,
  list,
  optionalPort,
  optionalText,
  optionalWhole,
  SERIAL_SOURCES,
  seconds,
  section,
  setting,
  someOf,
  text,
  urlPath,
  whole,
} from '../field.ts'

const BACKENDS = ['internal', 'external', 'hsm', 'acme_proxy'] as const
const isBackend = (value: string) => (BACKENDS as readonly string[]).includes(value) || /^ext:\S+$/.test(value)
const ONE_BACKEND = `one of ${BACKENDS.join(', ')}, or ext: and a module`
const ANY_BACKEND = `one of ${BACKENDS.join(', ')}, failover, or ext: and a module`
const isAnyBackend = (value: string) => value === 'failover' || isBackend(value)

const hash = (subject: string) => setting(choice(HASHES, 'sha256'), `Hash of ${subject}.`)
const path = (sentence: string) => setting(optionalText(), sentence)
const olderSerialSource = () =>
  setting(
    z.enum(SERIAL_SOURCES).nullable().default(null),
    'Older place of `ca.serial_source`; counts when that is absent.',
  )

const Profile = entry('One certificate profile.', {
  description: setting(optionalText(), 'Sentence or URL that the directory shows for the profile.'),
  key_usages: setting(
    list(z.enum(KEY_USAGES)),
    'Key usages, as far as the kind of key can serve them. None leaves the extension out; a separate signer must allow that with `key_usage_required: false`.',
  ),
  extended_key_usages: setting(
    list(z.enum(keysOf(EXTENDED_KEY_USAGES))),
    'Extended key usages of the certificate; empty leaves the extension out.',
  ),
  validity_days: setting(optionalWhole(1), 'Lifetime; `ca.default_validity_days` when absent.', { unit: 'days' }),
  max_validity_days: setting(optionalWhole(1), 'Longest lifetime; `ca.max_validity_days` when absent.', {
    unit: 'days',
  }),
  key_types: setting(
    someOf(SUBJECT_KEY_TYPES, ['RSA', 'P-256', 'P-384']),
    'Kinds of key in CSRs. Root programs accept the default ones only.',
  ),
  issuer: setting(
    z
      .union([z.string().min(1), z.array(z.string().min(1)).min(1)])
      .nullable()
      .default(null),
    'Names of issuers in the signer; the first one when absent. The first valid issuer in the list signs whose kind of key (RSA or not) is that of the request, else the first valid one.',
  ),
  backend: setting(
    optionalText(isAnyBackend),
    'Backend that issues certificates of the profile; `ca.backend` when absent.',
    {
      expects: ANY_BACKEND,
    },
  ),
})

type Profile = z.output<typeof Profile>

const defaultProfile = () =>
  Profile.parse({ key_usages: ['digital_signature', 'key_encipherment'], extended_key_usages: ['server_auth'] })

const Signer = section('The process that holds the signing key.', {
  socket: path('Unix socket of a running signer; when absent, the service starts one.'),
  secret_file: path('File with the secret that the service shows to the signer.'),
  timeout_seconds: seconds(1, 10, 'Time one signature may take.'),
  audit_file: path('Audit chain of a signer that the service starts itself.'),
})

const Internal = section('Backend `internal`: key in a file.', {
  root_cert_path: path('PEM file with the certificate that signs.'),
  root_key_path: path('PEM file with its private key; only the signer reads it.'),
  chain_path: path('PEM file with the certificates above the signing one, in order.'),
  serial_source: olderSerialSource(),
  hash_algorithm: hash('signatures'),
})

const OID = /^[0-2](\.(0|[1-9]\d*))+$/
const oid = (example: string) => checkedText(`an object identifier such as ${example}`, (value) => OID.test(value))
const ATTRIBUTES = [...ATTRIBUTE_SHORT_NAMES.values()]
const KEY_PURPOSES = keysOf(EXTENDED_KEY_USAGES)
const oneOfOrOid = (names: readonly string[], example: string) =>
  checkedText(
    `one of ${names.join(', ')}, or an object identifier such as ${example}`,
    (value) => names.includes(value) || OID.test(value),
  )

/** Additions that each backend issuing from a CSR may make. Modules have them in `ca.extension_settings`. */
export const Accepted = section(
  'Content that certificates of this CA may have beyond their profile; any other is refused.',
  {
    subject_attributes: setting(
      list(oneOfOrOid(ATTRIBUTES, '2.5.4.97'), ['CN']),
      'Attributes that the subject may have. A common name has to be a name of the order.',
    ),
    key_purposes: setting(
      list(oneOfOrOid(KEY_PURPOSES, '1.3.6.1.5.5.7.3.17')),
      "Extended key usages beyond the profile's, such as `client_auth` where the CA adds it to every certificate.",
    ),
    extensions: setting(
      list(oid('1.3.6.1.5.5.7.1.24')),
      'Non-critical extensions beside those of RFC 5280 and signed certificate timestamps.',
    ),
    policy_oids: setting(
      list(oid('2.23.140.1.2.1'), [DOMAIN_VALIDATED]),
      'Certificate policies beside `ca.policy_oids`. The default is "domain validated" of the Baseline Requirements.',
    ),
  },
)

const External = section('Backend `external`: a signing service over HTTP.', {
  sign_url: setting(optionalText(isHttpUrl), 'URL that signs.', { expects: HTTP_URL, secret: true }),
  revoke_url: setting(optionalText(isHttpUrl), 'URL that revokes.', { expects: HTTP_URL, secret: true }),
  auth_header: setting(text('Authorization'), 'Header with the credential.'),
  auth_value: setting(optionalText(), 'Credential; the header is left out when it is empty.', { secret: true }),
  ca_cert_path: path('PEM file with certificates to trust in addition to those of the system.'),
  client_cert_path: path('PEM file with the client certificate.'),
  client_key_path: path('PEM file with the key of the client certificate.'),
  proxy_url: setting(optionalText(isHttpUrl), 'HTTP proxy on the way to the CA.', {
    expects: HTTP_URL,
    secret: true,
  }),
  trust_anchors: setting(
    list(z.string().min(1)),
    'PEM files with the roots that its chains must end at. Empty accepts every chain that agrees with itself.',
  ),
  accepted: Accepted,
  idempotent: setting(
    flag(false),
    'Whether the CA answers a repeated `idempotency_key` with the same certificate. Without it, an order whose request was lost fails with an alarm.',
  ),
  timeout_seconds: seconds(1, 30, 'Time one request may take.'),
  max_retries: setting(whole(0, 0), 'Attempts after the first.'),
  retry_delay_seconds: setting(z.number().min(0).default(1), 'Wait before the second attempt; doubles.', {
    unit: 'seconds',
  }),
})

const Failover = section('Backend `failover`: several backends, one after the other.', {
  backends: setting(
    list(checkedText(ONE_BACKEND, isBackend)),
    'Backends in the order in which they are asked. The next one is asked when one is away.',
  ),
  probe_seconds: seconds(
    1,
    15,
    'Time between two probes of a backend that is away; one that is up is asked every 15 seconds.',
  ),
})

const AcmeProxy = section('Backend `acme_proxy`: another ACME service issues.', {
  directory_url: setting(optionalText(isHttpUrl), 'Directory of the upstream ACME service.', { expects: HTTP_URL }),
  email: setting(optionalText(isEmail), 'Contact of the upstream account.', { expects: EMAIL }),
  storage_path: setting(
    text('./acme_proxy_storage'),
    'Folder that ACMEEH kept its upstream account in; its key is taken over once. The file `seal.key` is made there when neither `acme.eab_key_file` nor `admin_api.token_secret` is set.',
  ),
  challenge_type: setting(choice(['dns-01', 'http-01'], 'dns-01'), 'Method used upstream.'),
  challenge_handler: setting(
    optionalText((value) => ['callback_dns', 'file_http', 'callback_http'].includes(value) || /^ext:\S+$/.test(value)),
    'Handler that publishes the responses to upstream challenges.',
    { expects: 'one of callback_dns, file_http, callback_http, or ext: and a module' },
  ),
  challenge_handler_config: setting(
    z.record(z.string(), z.unknown()).default(() => ({})),
    'Settings of the handler.',
    // A module may have the token of a DNS service among them.
    { secret: true },
  ),
  eab_kid: setting(optionalText(), 'Key id of the upstream account binding.'),
  eab_hmac_key: setting(optionalText(), 'Key of the upstream account binding, base64url.', { secret: true }),
  proxy_url: setting(optionalText(isHttpUrl), 'HTTP proxy on the way upstream.', { expects: HTTP_URL, secret: true }),
  verify_ssl: setting(flag(true), 'Check the certificate of the upstream service.'),
  ca_cert_path: path('PEM file with certificates to trust in addition to those of Node.js.'),
  trust_anchors: setting(
    list(z.string().min(1)),
    'PEM files with the roots that its chains must end at. Empty accepts every chain that agrees with itself.',
  ),
  accepted: Accepted,
  timeout_seconds: seconds(
    1,
    300,
    'Time an upstream order may take until the CSR is sent. The wait for the certificate comes after it (`ca.deferred_signing_timeout`).',
  ),
  max_retries: setting(whole(0, 5), 'Attempts at a step of an upstream order after the first.'),
  order_ready_timeout: seconds(
    1,
    30,
    'Time the upstream order may take to become ready once the challenges are answered.',
  ),
  max_concurrent_orders: setting(z.int().min(1).max(1000).default(32), 'Upstream orders open at the same time.'),
})

const Hsm = section('Backend `hsm`: key in a PKCS#11 token.', {
  pkcs11_library: path('PKCS#11 library.'),
  token_label: path('Label of the token.'),
  slot_id: setting(optionalWhole(0), 'Slot of the token.'),
  pin: setting(optionalText(), 'PIN of the token.', { secret: true }),
  key_label: path('Label of the signing key.'),
  key_id: setting(
    optionalText((value) => /^([0-9A-Fa-f]{2})+$/.test(value)),
    'Id of the signing key.',
    {
      expects: 'hexadecimal bytes such as 01af',
    },
  ),
  key_type: setting(choice(['rsa', 'ec'], 'ec'), 'Kind of the signing key.'),
  hash_algorithm: hash('signatures'),
  issuer_cert_path: path('PEM file with the certificate of the signing key.'),
  chain_path: path('PEM file with the certificates above it, in order.'),
  serial_source: olderSerialSource(),
  login_required: setting(flag(true), 'Log in to the token with the PIN.'),
  session_pool_size: setting(z.int().min(1).max(32).default(4), 'Sessions kept open.'),
  session_pool_timeout_seconds: seconds(1, 30, 'Wait for a free session.'),
})

export const Ca = section('The certificate authority.', {
  backend: setting(
    checkedText(ANY_BACKEND, isAnyBackend).default('internal'),
    'Issuer of certificates: a key in a file (`internal`) or in a token (`hsm`), another CA, or several of them (`failover`).',
    { expects: ANY_BACKEND },
  ),
  default_validity_days: setting(whole(1, 90), 'Lifetime of certificates.', { unit: 'days' }),
  max_validity_days: setting(whole(1, 397), 'Longest lifetime of certificates.', { unit: 'days' }),
  backdate_seconds: seconds(0, 3600, 'How far notBefore lies in the past, for clocks that are behind.'),
  include_root: setting(flag(false), 'End the chain with the self-signed root.'),
  serial_source: setting(choice(SERIAL_SOURCES, 'random'), '`database`: random bits followed by a sequence value.'),
  aia_issuer_urls: setting(list(httpUrl()), 'caIssuers URLs of the authority information access extension.'),
  policy_oids: setting(list(oid('2.23.140.1.2.1')), 'Certificate policies.'),
  crl_url: setting(
    optionalText(isHttpUrl),
    'CRL distribution point of certificates; `{crl}` is replaced by the name of the issuer. When absent: the URL at which `crl` publishes the list.',
    {
      expects: HTTP_URL,
    },
  ),
  profiles: setting(
    z
      .record(z.string().regex(/^[A-Za-z0-9._-]+$/), Profile)
      .default(() => ({}))
      .transform((profiles): Record<string, Profile> => ({ default: defaultProfile(), ...profiles })),
    'Certificate profiles by name. `default` always exists: digital_signature, key_encipherment and server_auth.',
  ),
  signer: Signer,
  internal: Internal,
  external: External,
  failover: Failover,
  acme_proxy: AcmeProxy,
  hsm: Hsm,
  circuit_breaker_failure_threshold: setting(
    whole(1, 5),
    'Failures in a row after which the backend is left alone; failures of one order count once.',
  ),
  circuit_breaker_recovery_timeout: setting(z.number().min(0.1).default(30), 'Time until it is tried again.', {
    unit: 'seconds',
  }),
  deferred_signing_timeout: seconds(
    1,
    600,
    'Time a certificate may take after finalize; then the order fails, and what still comes is revoked.',
  ),
  received_lint: setting(
    choice(['warn', 'refuse'], 'warn'),
    'Effect of a finding of the lint in a certificate of another CA: a line in the log, or a failed order.',
  ),
  extension_settings: setting(
    z.record(z.string(), z.unknown()).default(() => ({})),
    'Settings of `ext:` backends (docs/ca-modules.md); a section named like a backend is for that one alone. Where `ca.backend` is one, unknown keys directly under `ca` are taken as well. `timeout_seconds` (30), `concurrency` (4), `trust_anchors` and `accepted` (as of `ca.external`) are read by the service.',
    // A module may have the password of a CA among them.
    { secret: true },
  ),
})

/** The longest validity of a list that a signer can be configured to sign. */
const MAX_NEXT_UPDATE_SECONDS = 3660 * 86_400

export const Crl = section('Certificate revocation list.', {
  enabled: setting(flag(false), 'Publish a certificate revocation list.'),
  path: setting(urlPath('/crl'), 'Path of the list.'),
  http_port: setting(
    optionalPort(),
    'Further port that serves only the lists and `api.roots_path`, without TLS; certificates name it.',
  ),
  rebuild_interval_seconds: seconds(1, 3600, 'Time between two lists. A revocation makes a new one within seconds.'),
  schedule: setting(
    optionalText(isCronExpression),
    'Times of new lists in UTC in place of the interval, such as `0 */6 * * *`.',
    { expects: 'a cron expression such as 0 */6 * * *' },
  ),
  next_update_seconds: setting(
    z.int().min(1).max(MAX_NEXT_UPDATE_SECONDS).default(86400),
    'Time from thisUpdate to nextUpdate. A signer that runs by itself allows it in `max_crl_validity_days`.',
    { unit: 'seconds' },
  ),
  hash_algorithm: setting(
    z.enum(HASHES).nullable().default(null),
    "Hash of the signature of the list, where it is stronger than the issuer's; the issuer's when absent.",
  ),
  shards: setting(
    z.int().min(1).max(1024).default(1),
    'Parts that new certificates are spread over, each with its own list.',
  ),
  complete: setting(
    flag(true),
    'Publish the complete list beside the parts, too. Without it, certificates issued while `shards` was 1 still keep theirs.',
  ),
})
