/** Settings of orders: identifier policy, profiles, lifetimes, and retention. */

import { backendsOf } from '../config/backends.ts'
import type { Config } from '../config/schema.ts'
import { type CertificateProfile, DEFAULT_PROFILE } from '../domain/certificate-profile.ts'
import { type IdentifierPolicy, publicSuffixes } from '../domain/identifier-policy.ts'
import { trustedProxies } from '../http/http-message.ts'
import type { ArchivePolicy } from '../services/archive/archive.ts'
import type { ExpiryLifetimes, RetentionPolicy } from '../services/archive/retention.ts'
import type { OrderingPolicy } from '../services/ordering.ts'
import type { EnabledMethod } from '../shared/protocol/challenge.ts'
import { normalizeDnsName } from '../shared/protocol/identifier.ts'
import { proxySettings } from './server-settings.ts'

const SECOND_MS = 1000
const DAY_MS = 86_400_000

/** Normalizes a pattern like an identifier: A-labels, lower case, no final dot. */
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
    isRegistry: publicSuffixes(policy.public_suffix_list),
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
      backends: backendsOf(ca, name),
    },
  ])
  const byName = new Map(profiles)
  requireDefault(byName)
  return byName
}

export function requireDefault(profiles: ReadonlyMap<string, CertificateProfile>): CertificateProfile {
  const profile = profiles.get(DEFAULT_PROFILE)
  if (!profile) throw new Error('the configuration always has a default profile')
  return profile
}

export function issuerIdsOf(issuer: string | readonly string[] | null): readonly string[] {
  if (issuer === null) return []
  return typeof issuer === 'string' ? [issuer] : issuer
}

export function orderingPolicy(config: Config, enabled: readonly EnabledMethod[]): OrderingPolicy {
  return {
    identifiers: identifierPolicy(config, enabled),
    profiles: certificateProfiles(config),
    autoAccept: config.challenges.auto_accept,
    isTrustedProxy: trustedProxies(proxySettings(config)),
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

/** @returns undefined where certificates are kept */
export function archivePolicy({ retention }: Config): ArchivePolicy | undefined {
  const { enabled, certificates_days_after_expiry: days, archive_dir: folder, cleanup_interval_seconds } = retention
  if (!enabled || days === null || folder === null) return undefined
  return { folder, certificateAgeMs: days * DAY_MS, pauseSeconds: cleanup_interval_seconds }
}
