/** From the configuration to the finished values that the parts receive: nobody below `main` sees the configuration. */

import { readFileSync } from 'node:fs'
import path from 'node:path'
import type { ExtensionThreadData } from '../../workers/extension/task.ts'
import type { AcmeSettings, DirectoryMeta } from '../acme/context.ts'
import type { CaBackend } from '../ca/backend.ts'
import { issuerDomainNames } from '../config/issuer-names.ts'
import type { Config } from '../config/schema.ts'
import { EXTENSION_DEFAULTS } from '../config/sections/challenges.ts'
import { type CertificateProfile, DEFAULT_PROFILE, hasChoiceOfProfiles } from '../domain/certificate-profile.ts'
import { crlName, shardOf } from '../domain/crl-shard.ts'
import type { IdentifierPolicy } from '../domain/identifier-policy.ts'
import { RATE_CATEGORIES, type RateCategory } from '../domain/rate-limit.ts'
import type { ValidationPolicy } from '../domain/validation-policy.ts'
import type { ProxySettings } from '../http/forwarded.ts'
import { describeFileError } from '../lib/file-error.ts'
import { keysOf } from '../lib/keys.ts'
import { createSecretBox, type SecretBox } from '../lib/secret-box.ts'
import { CURVES } from '../pki/algorithms.ts'
import type { BuiltInType, ChallengeType, EnabledMethod } from '../protocol/challenge.ts'
import { normalizeDnsName } from '../protocol/identifier.ts'
import type { AccountKeyPolicy } from '../protocol/jwk.ts'
import { createUrls, type UrlSettings } from '../protocol/urls.ts'
import type { AccountRulesPolicy } from '../services/account-rules.ts'
import type { CrlPolicy } from '../services/crl-builder.ts'
import type { ExpiryLifetimes } from '../services/expiry.ts'
import type { ExternalAccountPolicy } from '../services/external-accounts.ts'
import type { IssuancePolicy } from '../services/issuance.ts'
import type { OrderingPolicy } from '../services/ordering.ts'
import type { QuotaPolicy } from '../services/quotas.ts'
import type { RateLimitSettings } from '../services/rate-limiter.ts'
import type { RegistrationPolicy } from '../services/registration.ts'
import type { RenewalPolicy } from '../services/renewal.ts'
import type { RetentionPolicy } from '../services/retention.ts'
import type { DispatchLimits } from '../services/validation-dispatcher.ts'
import type { AdoptionRules } from '../store/authorization-store.ts'
import type { DatabaseSettings } from '../store/database.ts'
import type { LiveSettings } from './messages.ts'

const SECOND_MS = 1000
const DAY_MS = 86_400_000

/** Connections of an instance that are not a front thread's: the supervisor's pool and its presence lock. */
const SUPERVISOR_CONNECTIONS = 4
/** More than this per thread makes batches smaller, not requests faster. */
const MAX_THREAD_CONNECTIONS = 4

export function threadConnections({ database, server }: Config): number {
  const share = Math.floor((database.max_connections - SUPERVISOR_CONNECTIONS) / server.workers)
  return Math.max(1, Math.min(MAX_THREAD_CONNECTIONS, share))
}

export function databaseSettings(
  { database, server }: Config,
  maxConnections = SUPERVISOR_CONNECTIONS - 1,
): DatabaseSettings {
  return {
    host: database.host,
    port: database.port,
    database: database.database,
    user: database.user,
    password: database.password ?? '',
    sslmode: database.sslmode,
    maxConnections,
    connectionTimeoutMs: database.connection_timeout * SECOND_MS,
    idleTimeoutMs: database.max_idle_seconds * SECOND_MS,
    statementTimeoutMs: server.timeout * SECOND_MS,
  }
}

/** Of the keys that the schema marks `live`, those that have an effect in this release. */
export function liveSettings(config: Config): LiveSettings {
  const { logging, metrics } = config
  return {
    logLevel: logging.level,
    metricsPath: metrics.enabled ? metrics.path : undefined,
    rateLimits: rateLimitSettings(config),
  }
}

export function urlSettings({ server, api, acme, ari, crl }: Config): UrlSettings {
  return {
    externalUrl: server.external_url.replace(/\/$/, ''),
    basePath: api.base_path.replace(/\/$/, ''),
    paths: {
      directory: acme.paths.directory,
      newNonce: acme.paths.new_nonce,
      newAccount: acme.paths.new_account,
      newOrder: acme.paths.new_order,
      newAuthz: acme.paths.new_authz,
      revokeCert: acme.paths.revoke_cert,
      keyChange: acme.paths.key_change,
      ...(ari.enabled && { renewalInfo: ari.path }),
      ...(crl.enabled && { crl: crl.path }),
    },
  }
}

export function nonceLifetimeSeconds({ nonce }: Config): number {
  return Math.min(nonce.expiry_seconds, nonce.max_age_seconds ?? Number.POSITIVE_INFINITY)
}

export function overloadSettings({ server: { overload, workers } }: Config) {
  return {
    enabled: overload.enabled,
    targetDelayMs: overload.target_delay_ms,
    // The system does not divide them evenly.
    maxConnections: Math.ceil((overload.max_connections / workers) * (workers > 1 ? 1.25 : 1)),
  }
}

export function proxySettings({ proxy }: Config): ProxySettings {
  return {
    enabled: proxy.enabled,
    trustedProxies: proxy.trusted_proxies,
    forwardedForHeader: proxy.forwarded_for_header.toLowerCase(),
    forwardedProtoHeader: proxy.forwarded_proto_header.toLowerCase(),
  }
}

export function rateLimitSettings({ security }: Config): RateLimitSettings {
  const { enabled, backend, ...rules } = security.rate_limits
  const limit = (category: RateCategory) => {
    const { requests, window_seconds } = rules[category]
    return [category, { requests, windowSeconds: window_seconds }]
  }
  const categories = Object.keys(RATE_CATEGORIES) as RateCategory[]
  return { enabled, backend, limits: Object.fromEntries(categories.map(limit)) }
}

export function quotaPolicy({ quotas }: Config): QuotaPolicy {
  return {
    orders: quotas.enabled ? quotas.max_orders_per_account_per_day : 0,
    certificates: quotas.enabled ? quotas.max_certificates_per_account_per_day : 0,
  }
}

export function acmeSettings(config: Config): AcmeSettings {
  const { security, acme, order, challenges } = config
  return {
    algorithms: security.allowed_algorithms,
    accountKeys: accountKeyPolicy(config),
    directoryMeta: directoryMeta(config),
    dnsPersist: { issuerDomainNames: issuerDomainNames(config), draft: challenges.dnspersist01.draft },
    orderRetryAfterSeconds: order.retry_after_seconds,
    challengeRetryAfterSeconds: challenges.retry_after_seconds,
    ordersPageSize: acme.orders_page_size,
  }
}

function accountKeyPolicy({ security }: Config): AccountKeyPolicy {
  return {
    minRsaBits: security.min_rsa_key_size,
    maxRsaBits: security.max_rsa_key_size,
    curves: security.allowed_ec_curves,
  }
}

function directoryMeta(config: Config): DirectoryMeta {
  const { tos, acme, ca } = config
  const profiles = new Map(Object.entries(ca.profiles))
  return {
    ...(tos.url && { termsOfService: tos.url }),
    ...(acme.website_url && { website: acme.website_url }),
    ...(acme.caa_identities.length > 0 && { caaIdentities: acme.caa_identities }),
    ...(acme.eab_required && { externalAccountRequired: true }),
    ...(hasChoiceOfProfiles(profiles) && {
      profiles: Object.fromEntries([...profiles].map(([name, { description }]) => [name, description ?? ''])),
    }),
    ...persistMeta(config),
  }
}

/** Without a name that records could permit there is nothing to check them for. */
export function isCaaEnforced({ acme }: Config): boolean {
  return acme.caa_enforce && acme.caa_identities.length > 0
}

function persistMeta(config: Config): Pick<DirectoryMeta, 'issuerDomainNames' | 'accountHashPrefix'> {
  const { enabled, dnspersist01 } = config.challenges
  if (!enabled.includes('dns-persist-01') || dnspersist01.draft === '01') return {}
  const { accountHashPrefix } = createUrls(urlSettings(config))
  return { issuerDomainNames: issuerDomainNames(config), accountHashPrefix }
}

export function registrationPolicy({ email, tos, account }: Config): RegistrationPolicy {
  return {
    contacts: { required: email.require_contact, allowedDomains: email.allowed_domains },
    termsUrl: tos.url ?? undefined,
    termsRequired: tos.require_agreement,
    termsVersion: tos.version ?? undefined,
    termsInstructionsUrl: tos.instructions_url ?? tos.url ?? undefined,
    allowContactUpdate: account.allow_contact_update,
    allowDeactivation: account.allow_deactivation,
  }
}

export function externalAccountPolicy(config: Config): ExternalAccountPolicy {
  const { eab_required: required, eab_reusable: reusable } = config.acme
  return { required, reusable, accountKeys: accountKeyPolicy(config) }
}

/** Less than this from a file is a mistake: a truncated file, or a password. */
const MIN_EAB_SECRET_BYTES = 32

/**
 * What the HMAC keys of binding credentials are sealed with; undefined where no secret is configured.
 * @throws Error when the file cannot be read or is too short
 */
export function eabSecretBox({ acme, admin_api }: Config): SecretBox | undefined {
  const secret = acme.eab_key_file === null ? admin_api.token_secret : namedEabSecret(acme.eab_key_file)
  return secret === null ? undefined : createSecretBox(secret, 'chancery: HMAC keys of binding credentials')
}

function namedEabSecret(file: string): Buffer {
  try {
    return readEabSecret(path.resolve(file))
  } catch (cause) {
    throw new Error(`acme.eab_key_file: ${(cause as Error).message}`, { cause })
  }
}

/** @throws Error in one sentence when it cannot be read or is too short */
export function readEabSecret(file: string): Buffer {
  let secret: Buffer
  try {
    secret = readFileSync(file)
  } catch (cause) {
    throw new Error(`${file}: cannot be read: ${describeFileError(cause)}`, { cause })
  }
  if (secret.length >= MIN_EAB_SECRET_BYTES) return secret
  throw new Error(`${file} has ${secret.length} bytes; it needs at least ${MIN_EAB_SECRET_BYTES}`)
}

export function accountRulesPolicy({ security }: Config): AccountRulesPolicy {
  return {
    enforceAllowlist: security.identifier_policy.enforce_account_allowlist,
    requireCsrProfile: security.require_csr_profile,
  }
}

/** As identifiers are compared: A-labels, lower case, no final dot. */
export function normalPattern(pattern: string): string {
  const normal = normalizeDnsName(pattern.replace(/\.$/, ''))
  if (!normal.ok) throw new Error(`the pattern ${pattern} ${normal.reason}`)
  return normal.value
}

export function identifierPolicy({ security }: Config, enabled: readonly EnabledMethod[]): IdentifierPolicy {
  const { identifier_policy: policy } = security
  return {
    allowedDomains: policy.allowed_domains.map(normalPattern),
    forbiddenDomains: policy.forbidden_domains.map(normalPattern),
    allowWildcards: policy.allow_wildcards,
    allowIp: policy.allow_ip,
    allowSingleLabel: policy.allow_single_label,
    maxIdentifiers: policy.max_identifiers_per_order,
    maxValueLength: policy.max_identifier_value_length,
    enabledChallenges: enabled,
  }
}

export function certificateProfiles({ ca }: Config): ReadonlyMap<string, CertificateProfile> {
  const profiles = Object.entries(ca.profiles).map(([name, profile]): [string, CertificateProfile] => [
    name,
    {
      name,
      description: profile.description ?? '',
      keyUsages: profile.key_usages,
      extendedKeyUsages: profile.extended_key_usages,
      keyTypes: profile.key_types,
      validity: {
        validityDays: profile.validity_days ?? ca.default_validity_days,
        maxValidityDays: Math.min(ca.max_validity_days, profile.max_validity_days ?? ca.max_validity_days),
        backdateSeconds: ca.backdate_seconds,
      },
      issuerIds: issuerIdsOf(profile.issuer),
    },
  ])
  const byName = new Map(profiles)
  if (!byName.has(DEFAULT_PROFILE)) throw new Error('the configuration always has a default profile')
  return byName
}

export function orderingPolicy(config: Config, enabled: readonly EnabledMethod[]): OrderingPolicy {
  return {
    identifiers: identifierPolicy(config, enabled),
    profiles: certificateProfiles(config),
    autoAccept: config.challenges.auto_accept,
    ...expiryLifetimes(config),
  }
}

export function expiryLifetimes({ order }: Config): ExpiryLifetimes {
  return {
    orderLifetimeMs: order.expiry_seconds * SECOND_MS,
    authorizationLifetimeMs: order.authorization_expiry_seconds * SECOND_MS,
    preAuthorizationLifetimeMs: order.pre_authorization_lifetime_days * DAY_MS,
  }
}

export function retentionPolicy(config: Config): RetentionPolicy {
  const { retention } = config
  const { orderLifetimeMs, authorizationLifetimeMs, preAuthorizationLifetimeMs } = expiryLifetimes(config)
  return {
    invalidOrderAgeMs: retention.invalid_order_max_age_days * DAY_MS,
    authorizationAgeMs: retention.expired_authz_max_age_days * DAY_MS,
    invalidChallengeAgeMs: retention.invalid_challenge_max_age_days * DAY_MS,
    orderLifetimeMs,
    authorizationLifetimeMs: Math.max(authorizationLifetimeMs, preAuthorizationLifetimeMs),
    pauseSeconds: retention.cleanup_interval_seconds,
  }
}

export function renewalPolicy({ ari }: Config): RenewalPolicy {
  return {
    renewalPercentage: ari.renewal_percentage,
    maxRetryAfterSeconds: ari.max_retry_after_seconds ?? Number.POSITIVE_INFINITY,
  }
}

/** A certificate may outlive the configuration it was issued under by this much. */
const CRL_MARGIN_DAYS = 31

export function crlPolicy(config: Config): CrlPolicy {
  const { crl, ca } = config
  return {
    intervalMs: crl.schedule === null ? crl.rebuild_interval_seconds * SECOND_MS : undefined,
    lifetimeMs: crl.next_update_seconds * SECOND_MS,
    hash: crl.hash_algorithm,
    shards: crl.shards,
    maxValidityDays: ca.max_validity_days + CRL_MARGIN_DAYS,
    urlOf: crlUrls(config),
    signTimeoutMs: ca.signer.timeout_seconds * SECOND_MS,
  }
}

/** A cache asks again as often as a new list comes by itself; one that came by a revocation is seen by then at the latest. */
export function crlMaxAgeSeconds({ crl }: Config): number {
  return crl.rebuild_interval_seconds
}

function issuerIdsOf(issuer: string | readonly string[] | null): readonly string[] {
  if (issuer === null) return []
  return typeof issuer === 'string' ? [issuer] : issuer
}

/** The issuer of the default profile, whose list the bare `crl.path` serves. */
export function defaultIssuerId({ ca: { profiles } }: Config, ca: Pick<CaBackend, 'issuers'>): string | undefined {
  return issuerIdsOf(profiles[DEFAULT_PROFILE]?.issuer ?? null)[0] ?? ca.issuers()[0]?.id
}

/** The name of a list in its URL: where we serve it, or where the operator says that it can be fetched. */
function crlUrls(config: Config): CrlPolicy['urlOf'] {
  const { crl_url: elsewhere } = config.ca
  const urls = createUrls(urlSettings(config))
  return (issuerId, shards, shard) => {
    const name = crlName(issuerId, { shards, shard })
    return elsewhere?.replaceAll('{crl}', name) ?? urls.crl(name) ?? ''
  }
}

/** The CRLDP of a certificate; undefined where it gets none. */
function certificateCrlUrl(config: Config): IssuancePolicy['crlUrl'] {
  const { crl, ca } = config
  if (!crl.enabled && ca.crl_url === null) return undefined
  const urlOf = crlUrls(config)
  const shards = crl.enabled ? crl.shards : 1
  return (issuerId, serialNumber) => urlOf(issuerId, shards, shards === 1 ? 0 : shardOf(serialNumber, shards))
}

export function issuancePolicy(config: Config, enabled: readonly EnabledMethod[]): IssuancePolicy {
  const { security, ca, order } = config
  return {
    csr: {
      signatureAlgorithms: security.allowed_csr_signature_algorithms,
      key: {
        rsaMinBits: security.min_csr_rsa_key_size,
        // decisions 17
        rsaMaxBits: 8192,
        curves: keysOf(CURVES).filter((curve) => CURVES[curve].bits >= security.min_csr_ec_key_size),
        ed25519: true,
      },
    },
    identifiers: identifierPolicy(config, enabled),
    profiles: certificateProfiles(config),
    caIssuersUrls: ca.aia_issuer_urls,
    policyOids: ca.policy_oids,
    crlUrl: certificateCrlUrl(config),
    finalizeWaitMs: order.finalize_wait_ms,
    signTimeoutMs: ca.signer.timeout_seconds * SECOND_MS,
  }
}

/** `challenges.extensions.<type>` */
export function extensionSettings({ challenges }: Pick<Config, 'challenges'>, type: string) {
  return Object.hasOwn(challenges.extensions, type)
    ? (challenges.extensions[type] ?? EXTENSION_DEFAULTS)
    : EXTENSION_DEFAULTS
}

interface MethodSettings {
  max_retries: number
  auto_validate: boolean
  timeout_seconds: number
}

/** What every method has, by type. A module may stand in for a built-in method: its own settings then count. */
function methodSettings({ challenges }: Config, { modules }: ExtensionThreadData): Map<ChallengeType, MethodSettings> {
  const builtIn = {
    'http-01': challenges.http01,
    'dns-01': challenges.dns01,
    'tls-alpn-01': challenges.tlsalpn01,
    'dns-persist-01': challenges.dnspersist01,
    'dns-account-01': challenges.dnsaccount01,
  } satisfies Record<BuiltInType, MethodSettings>
  const ofModules = modules.map(({ type }): [ChallengeType, MethodSettings] => [
    type as ChallengeType,
    { ...extensionSettings({ challenges }, type), auto_validate: true },
  ])
  return new Map([...(Object.entries(builtIn) as [BuiltInType, MethodSettings][]), ...ofModules])
}

export function validationPolicy(config: Config, extensions: ExtensionThreadData): ValidationPolicy {
  const methods = methodSettings(config, extensions)
  const { backoff_base_seconds, backoff_max_seconds } = config.challenges
  return {
    maxRetries: Object.fromEntries([...methods].map(([type, { max_retries }]) => [type, max_retries])),
    backoffBaseMs: backoff_base_seconds * SECOND_MS,
    backoffMaxMs: backoff_max_seconds * SECOND_MS,
  }
}

export function dispatchLimits({ challenges }: Config): DispatchLimits {
  return {
    total: challenges.max_concurrent,
    perAccount: challenges.max_concurrent_per_account,
    perTarget: challenges.max_concurrent_per_target,
    maxWaiting: challenges.max_waiting,
  }
}

/** `auto_validate`: whether a challenge of this type is validated by the instance that is asked for it. */
export function isValidatedHere(config: Config, extensions: ExtensionThreadData): (type: ChallengeType) => boolean {
  const methods = methodSettings(config, extensions)
  return (type) => methods.get(type)?.auto_validate ?? true
}

/** One silent name server costs the time of one question; as much again is left for the zones above it. */
export function caaTimeoutMs({ dns }: Config): number {
  return 2 * dns.timeout_seconds * 1000
}

/** How long remote perspectives may take for what this service has seen; 0 where there are none. */
export function corroborationMs({ challenges: { perspectives, corroboration } }: Config): number {
  return perspectives.length === 0 ? 0 : corroboration.timeout_seconds * SECOND_MS
}

/** Past the longest timeout; the pool's own grace for a thread that does not answer, and the record in the database. */
const ATTEMPT_GRACE_SECONDS = 10

/**
 * After how long without news a challenge in processing is lost to another instance. An attempt begins in the first half
 * of it (`claimFreshMs`) and is over in the second.
 */
export function staleSeconds(config: Config, extensions: ExtensionThreadData): number {
  const methods = [...methodSettings(config, extensions).values()]
  const longest = Math.max(...methods.map(({ timeout_seconds }) => timeout_seconds))
  const caa = isCaaEnforced(config) ? caaTimeoutMs(config) / SECOND_MS : 0
  const corroboration = corroborationMs(config) / SECOND_MS
  const attempt = longest + caa + corroboration + ATTEMPT_GRACE_SECONDS
  return Math.max(config.challenges.background_worker.stale_seconds, 2 * attempt)
}

export function adoptionRules(config: Config, extensions: ExtensionThreadData): Omit<AdoptionRules, 'limit'> {
  const { enabled } = config.challenges.background_worker
  const isHere = isValidatedHere(config, extensions)
  return {
    types: [...methodSettings(config, extensions).keys()].filter((type) => enabled || isHere(type)),
    staleSeconds: enabled ? staleSeconds(config, extensions) : undefined,
  }
}
