/** Settings that start but are probably unintended: a table of pure functions over the finished values. */

import { matchesPattern } from '../domain/allowlist.ts'
import { isNotificationType } from '../domain/notification.ts'
import { usedModules, usesBackend } from './backends.ts'
import { leastConnections } from './connections.ts'
import { type CaModuleConfig, caModuleConfig } from './modules.ts'
import type { IsSet } from './rules/rule.ts'
import type { Config } from './schema.ts'

/** @returns a sentence about forbidden names of which `www.` passes */
function narrowlyForbidden({ security }: Config): string | undefined {
  const { forbidden_domains: forbidden, allowed_domains: allowed } = security.identifier_policy
  const isMatched = (name: string, patterns: readonly string[]) => patterns.some((one) => matchesPattern(name, one))
  const [first, ...others] = forbidden
    .filter((pattern) => !pattern.startsWith('*.'))
    .map((name) => name.toLowerCase().replace(/\.$/, ''))
    .filter((name) => !isMatched(`www.${name}`, forbidden))
    .filter((name) => allowed.length === 0 || isMatched(`www.${name}`, allowed))
  if (first === undefined) return undefined
  const more = others.length > 0 ? `, as for ${others.length} more` : ''
  return `forbids only ${first} itself; write *.${first} for all below it${more}`
}

interface WarningRule {
  path: string
  check(config: Config, isSet: IsSet): string | readonly string[] | undefined
}

const FEW_CONNECTIONS = 10
const LONG_CONNECTION_TIMEOUT_SECONDS = 15
/** HMAC-SHA-256 has as many (RFC 7518 §3.2). */
const ADVISED_SECRET_BYTES = 32
const ONE_DAY_SECONDS = 86400

const warn = (path: string, applies: (c: Config, isSet: IsSet) => boolean, message: string): WarningRule => ({
  path,
  check: (c, isSet) => (applies(c, isSet) ? message : undefined),
})

/** The sections of the methods that look up TXT records. */
const DNS_METHODS = { 'dns-01': 'dns01', 'dns-persist-01': 'dnspersist01', 'dns-account-01': 'dnsaccount01' } as const

const dnsMethodWarnings = Object.entries(DNS_METHODS).flatMap(([type, section]) => {
  const inUse = ({ challenges }: Config) => challenges.enabled.includes(type)
  return [
    warn(
      `challenges.${section}.require_dnssec`,
      (c) =>
        inUse(c) &&
        c.challenges[section].require_dnssec &&
        c.challenges[section].resolvers.length === 0 &&
        c.dns.resolvers.length === 0,
      'believes the name servers of the system; name a validating resolver in resolvers, best one on this machine',
    ),
    warn(
      `challenges.${section}.propagation_wait_seconds`,
      (c) => inUse(c) && c.challenges[section].propagation_wait_seconds >= c.challenges[section].timeout_seconds,
      'is not below timeout_seconds of the method, which ends the attempt before the wait is over',
    ),
  ]
})

/** The sections of all methods. */
const METHODS = { ...DNS_METHODS, 'http-01': 'http01', 'tls-alpn-01': 'tlsalpn01' } as const

export const WARNINGS: readonly WarningRule[] = [
  warn(
    'challenges.background_worker.enabled',
    ({ challenges }) =>
      !challenges.background_worker.enabled &&
      Object.entries(METHODS).some(
        ([type, section]) => challenges.enabled.includes(type) && !challenges[section].auto_validate,
      ),
    'is false while auto_validate of an enabled method is false; its challenges wait for another instance to validate them',
  ),
  ...dnsMethodWarnings,
  {
    path: 'server.worker_class',
    check: ({ server: { worker_class: kind } }, isSet) =>
      isSet('server.worker_class') && kind !== 'thread'
        ? `${kind} means the same as thread here; database.max_connections counts for all threads together`
        : undefined,
  },
  warn(
    'nonce.length',
    (_, isSet) => isSet('nonce.length'),
    'has no effect: every nonce is 16 bytes long, which are 22 characters',
  ),
  warn(
    'server.keepalive',
    ({ server }) => (server.keepalive ?? 0) > 0,
    'has no effect: idle connections are kept open for ten seconds; only 0 means something, and closes after each reply',
  ),
  warn(
    'challenges.auto_accept',
    (c) => c.challenges.auto_accept,
    'is true: no control over any identifier is checked; every client that may ask for a name gets a certificate for it',
  ),
  warn(
    'proxy.trusted_proxies',
    (c) => !c.proxy.enabled && c.proxy.trusted_proxies.length > 0,
    'has no effect while proxy.enabled is false',
  ),
  { path: 'security.identifier_policy.forbidden_domains', check: narrowlyForbidden },
  {
    path: 'security.hsts_max_age_seconds',
    check: ({ security: { hsts_max_age_seconds: age } }) =>
      age > 0 && age < ONE_DAY_SECONDS
        ? `is ${age}, less than a day; browsers forget it before the next visit`
        : undefined,
  },
  warn(
    'security.rate_limits.backend',
    (c) =>
      c.security.rate_limits.enabled && c.security.rate_limits.backend === 'memory' && c.nonce.store === 'database',
    'is memory, which counts within this instance only; with nonce.store database several instances share the load, and so should their counters',
  ),
  {
    path: 'admin_api.token_secret',
    check({ admin_api: { token_secret: secret } }) {
      const bytes = secret === null ? ADVISED_SECRET_BYTES : Buffer.byteLength(secret)
      return bytes < ADVISED_SECRET_BYTES
        ? `has ${bytes} bytes; at least ${ADVISED_SECRET_BYTES} random ones are advised, for it signs the tokens of administrators`
        : undefined
    },
  },
  warn(
    'admin_api.approvals.user_changes',
    ({
      admin_api: {
        approvals: { user_changes, resume_signing, new_names, bulk_revocation_above },
      },
    }) => !user_changes && (resume_signing || new_names || bulk_revocation_above !== null),
    'is false while other acts need approval; who may make users alone can make a second one, and approve',
  ),
  warn(
    'audit_retention.enabled',
    (c) => c.audit_retention.enabled && !c.admin_api.enabled,
    'has no effect while admin_api.enabled is false',
  ),
  warn(
    'retention.certificates_days_after_expiry',
    (c) => c.retention.certificates_days_after_expiry !== null && !c.retention.enabled,
    'has no effect while retention.enabled is false',
  ),
  warn(
    'nonce.audit_consumed',
    (c) => c.nonce.audit_consumed,
    'is true: each signed request writes one more row, which is kept for audit_retention.max_age_days; watch the size of the table nonce_audit',
  ),
  warn(
    'acme.eab_reusable',
    (c) => c.acme.eab_reusable && !c.acme.eab_required,
    'is true while acme.eab_required is false; it concerns only clients that bind their account all the same',
  ),
  warn(
    'acme.caa_identities',
    (c) => c.acme.caa_enforce && c.acme.caa_identities.length === 0,
    'is empty, so CAA records are not checked; list the issuer domain names of this service, or set acme.caa_enforce to false',
  ),
  warn(
    'acme.caa_unreachable_ok',
    (c) => c.acme.caa_unreachable_ok.length > 0 && (!c.acme.caa_enforce || c.acme.caa_identities.length === 0),
    'has no effect while CAA records are not checked',
  ),
  warn(
    'ca.acme_proxy.trust_anchors',
    (c) => usesBackend(c, 'acme_proxy') && c.ca.acme_proxy.trust_anchors.length === 0,
    'is empty, so every chain that agrees with itself is delivered; name the roots of the upstream',
  ),
  warn(
    'ca.acme_proxy.verify_ssl',
    (c) => usesBackend(c, 'acme_proxy') && !c.ca.acme_proxy.verify_ssl,
    'is false, so anybody on the way can pose as the upstream; name its CA in ca.acme_proxy.ca_cert_path',
  ),
  warn(
    'ca.internal.root_key_path',
    (c) => c.ca.signer.socket !== null && c.ca.internal.root_key_path !== null,
    'is not read while ca.signer.socket is set; the running signer holds the key',
  ),
  warn(
    'ca.hsm.pin',
    (c) => c.ca.signer.socket !== null && c.ca.hsm.pin !== null,
    'is not read while ca.signer.socket is set; the running signer has the PIN',
  ),
  warn(
    'ca.external.trust_anchors',
    (c) => usesBackend(c, 'external') && c.ca.external.trust_anchors.length === 0,
    'is empty, so every chain that agrees with itself is delivered; name the roots of the CA',
  ),
  warn(
    'ca.external.revoke_url',
    (c) => usesBackend(c, 'external') && c.ca.external.revoke_url === null,
    'is absent, so the CA is not told of revocations',
  ),
  {
    path: 'ca.extension_settings',
    check: ({ ca }) =>
      usedModules(ca)
        .filter((backend) => hasNoAnchors(caModuleConfig(ca, backend)))
        .map((backend) => `has no trust_anchors for ${backend}; every chain that agrees with itself is delivered`),
  },
  {
    path: 'ca.crl_url',
    check({ ca: { crl_url }, crl, server }) {
      const ownUrl = crl.enabled && crl.http_port === null ? server.external_url : ''
      if (!/^https:/i.test(crl_url ?? ownUrl)) return undefined
      const where = crl_url === null ? 'is absent, so that certificates name their CRL by' : 'is'
      return `${where} an https URL, which clients that check TLS certificates with the list cannot fetch (RFC 5280 §8); name an http:// URL, or set crl.http_port`
    },
  },
  warn(
    'api.roots_file',
    (c) => c.api.roots_file !== null && c.api.roots_path === null,
    'has no effect while api.roots_path is absent',
  ),
  warn('crl.http_port', (c) => c.crl.http_port !== null && !c.crl.enabled, 'has no effect while crl.enabled is false'),
  warn(
    'email.validate_mx',
    (c) => c.email.validate_mx && c.dns.resolvers.length === 0,
    'uses the name servers of the system, because dns.resolvers is empty',
  ),
  {
    path: 'database.max_connections',
    check(config) {
      const { database, server } = config
      const { all, others } = leastConnections(config)
      return database.max_connections < all
        ? `is ${database.max_connections}, and up to ${all} are opened: one for each of ${server.workers} front threads, ${others} for the rest`
        : undefined
    },
  },
  warn(
    'database.max_connections',
    (c) => c.database.max_connections < FEW_CONNECTIONS,
    `is below ${FEW_CONNECTIONS}; a burst of requests will be turned away`,
  ),
  warn(
    'database.connection_timeout',
    (c) => c.database.connection_timeout > LONG_CONNECTION_TIMEOUT_SECONDS,
    `is above ${LONG_CONNECTION_TIMEOUT_SECONDS} seconds; requests pile up while the database is away`,
  ),
  warn(
    'notifications.enabled',
    (c, isSet) => isSet('notifications.enabled') && c.notifications.enabled && !c.smtp.enabled,
    'is true while smtp.enabled is false; notifications are recorded and not sent',
  ),
  {
    path: 'notifications.disabled_types',
    check: (c) =>
      c.notifications.disabled_types
        .filter((type) => !isNotificationType(type))
        .map((type) => `${JSON.stringify(type)} is no notification type`),
  },
  {
    path: 'hooks.timeout_seconds',
    check: (c) => longerThanRequests(c, c.hooks.timeout_seconds),
  },
  {
    path: 'hooks.registered',
    check: (c) =>
      c.hooks.registered.flatMap((hook, index) => {
        const message = hook.enabled ? longerThanRequests(c, hook.timeout_seconds ?? 0) : undefined
        return message === undefined ? [] : [`timeout_seconds of entry ${index + 1} ${message}`]
      }),
  },
  warn(
    'quotas.enabled',
    (c) =>
      c.quotas.enabled &&
      c.quotas.max_orders_per_account_per_day === 0 &&
      c.quotas.max_certificates_per_account_per_day === 0,
    'is true, but both limits are 0, which is no limit',
  ),
  warn(
    'admin_api.enabled',
    (c, isSet) => c.admin_api.enabled && !c.smtp.enabled && !isSet('smtp.enabled'),
    'is true, and no mail is set up: administrators get none; name a mail server in smtp, or write smtp.enabled: false',
  ),
]

const hasNoAnchors = (read: CaModuleConfig | string) =>
  typeof read !== 'string' && read.limits.trust_anchors.length === 0

function longerThanRequests(c: Config, seconds: number): string | undefined {
  return seconds > c.server.timeout ? `is ${seconds}, more than server.timeout (${c.server.timeout})` : undefined
}
