/** Settings of validation: jobs of the methods, timeouts, retries, limits, CAA and MX checks, and perspectives. */

import type { ExtensionThreadData } from '../../workers/extension/extension-task.ts'
import type { DnsSettings } from '../../workers/job.ts'
import { caaIdentities, EXTENSION_DEFAULTS, issuerDomainNames } from '../config/challenge-facts.ts'
import type { Config } from '../config/schema.ts'
import { publicSuffixes } from '../domain/identifier-policy.ts'
import type { ValidationPolicy } from '../domain/validation-attempt.ts'
import type { PerspectiveSettings } from '../mpic/perspective-service.ts'
import type { DispatchLimits } from '../services/validation-dispatcher.ts'
import type { BuiltInType, ChallengeType } from '../shared/protocol/challenge.ts'
import { Urls } from '../shared/protocol/urls.ts'
import type { AdoptionRules } from '../store/challenge-store.ts'
import type { CaaSettings, MailDomainSettings } from '../validation/dns-checks.ts'
import type { DnsMethodSettings, JobSettings } from '../validation/jobs.ts'
import { normalPattern } from './order-settings.ts'
import { urlSettings } from './server-settings.ts'

const SECOND_MS = 1000

/** `challenges.extensions.<type>` */
function extensionSettings({ challenges }: Pick<Config, 'challenges'>, type: string) {
  return Object.hasOwn(challenges.extensions, type)
    ? (challenges.extensions[type] ?? EXTENSION_DEFAULTS)
    : EXTENSION_DEFAULTS
}

interface MethodSettings {
  max_retries: number
  auto_validate: boolean
  timeout_seconds: number
}

/** The common settings by method type. A module that replaces a built-in method brings its own. */
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
    maxSpentMs: Object.fromEntries(
      [...methods].map(([type, { timeout_seconds }]) => [type, 2 * timeout_seconds * SECOND_MS + afterwardsMs(config)]),
    ),
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

/** `auto_validate`: whether the instance that gets the request validates the challenge itself. */
export function isValidatedHere(config: Config, extensions: ExtensionThreadData): (type: ChallengeType) => boolean {
  const methods = methodSettings(config, extensions)
  return (type) => methods.get(type)?.auto_validate ?? true
}

/** CAA and perspectives have their own timeouts and run after the method. */
const afterwardsMs = (config: Config) => (isCaaEnforced(config) ? caaCheckMs(config) : corroborationMs(config))

/** Longest time of one CAA check with its corroboration. */
export const caaCheckMs = (config: Config) => caaTimeoutMs(config) + corroborationMs(config)

/** CAA records are checked only if they could name this CA. */
export function isCaaEnforced({ acme }: Config): boolean {
  return acme.caa_enforce && acme.caa_identities.length > 0
}

/** A silent name server costs one timeout; the second timeout covers the zones above it. */
function caaTimeoutMs({ dns }: Config): number {
  return 2 * dns.timeout_seconds * 1000
}

export const caaSettings = (config: Config): CaaSettings | undefined =>
  isCaaEnforced(config) ? caaLookUp(config) : undefined

function caaLookUp(config: Config): CaaSettings {
  const { caa_identities, caa_unreachable_ok } = config.acme
  const dns = dnsSettings(config)
  return {
    identities: caaIdentities(caa_identities),
    unreachableOk: caa_unreachable_ok.map(normalPattern),
    timeoutMs: caaTimeoutMs(config),
    // BR 3.2.2.8: a look-up has failed only after at least one retry.
    dns: dns.retries > 0 ? dns : { ...dns, retries: 1 },
  }
}

/** The timeout covers the MX look-up, and the address look-up that follows when there is no MX record. */
export const mailDomainSettings = (config: Config): MailDomainSettings => ({
  timeoutMs: 2 * config.dns.timeout_seconds * SECOND_MS,
  dns: dnsSettings(config),
})

/** @param version of this release, which names itself to the hosts that it asks */
export function jobSettings(config: Config, version: string): JobSettings {
  const { http01, dns01, dnsaccount01, tlsalpn01, dnspersist01 } = config.challenges
  const { website_url } = config.acme
  const dns = dnsSettings(config)
  return {
    urls: new Urls(urlSettings(config)),
    http01: {
      timeoutMs: http01.timeout_seconds * SECOND_MS,
      port: http01.port,
      httpsPort: http01.https_port,
      maxResponseBytes: http01.max_response_bytes,
      blockedNetworks: http01.blocked_networks,
      userAgent: `chancery/${version}${website_url ? ` (${website_url})` : ''}`,
      dns,
    },
    tlsAlpn01: {
      timeoutMs: tlsalpn01.timeout_seconds * SECOND_MS,
      port: tlsalpn01.port,
      blockedNetworks: tlsalpn01.blocked_networks,
      dns,
    },
    dns01: dnsMethodSettings(config, dns01),
    dnsAccount01: dnsMethodSettings(config, dnsaccount01),
    dnsPersist01: {
      ...dnsMethodSettings(config, dnspersist01),
      issuerDomainNames: issuerDomainNames(config),
      allowWildcardPolicy: dnspersist01.allow_wildcard_policy,
      allowSubdomainPolicy: dnspersist01.allow_subdomain_policy,
      isHashed: dnspersist01.draft === '02',
      isRegistry: dnspersist01.allow_subdomain_policy
        ? publicSuffixes(config.security.identifier_policy.public_suffix_list)
        : undefined,
    },
    extensionTimeoutMs: (type) => extensionSettings(config, type).timeout_seconds * SECOND_MS,
  }
}

function dnsMethodSettings(config: Config, method: Config['challenges']['dns01']): DnsMethodSettings {
  return {
    timeoutMs: method.timeout_seconds * SECOND_MS,
    propagationWaitMs: method.propagation_wait_seconds * SECOND_MS,
    requireDnssec: method.require_dnssec,
    requireAuthoritative: method.require_authoritative,
    blockedNetworks: config.challenges.http01.blocked_networks,
    dns: dnsSettings(config, method.resolvers),
  }
}

/**
 * `dns` in the workers' form (docs/decisions/dns-settings.md).
 *
 * @param ofMethod resolvers of a method; when not empty they override `dns.resolvers`
 */
function dnsSettings({ dns }: Config, ofMethod: readonly string[] = []): DnsSettings {
  const resolvers = ofMethod.length > 0 ? ofMethod : dns.resolvers
  return {
    resolvers,
    zones: dns.zones.map(({ zone, resolvers, addresses }) => ({
      zone,
      ...(resolvers.length > 0 && { resolvers }),
      ...(addresses.length > 0 && { addresses }),
    })),
    timeoutMs: dns.timeout_seconds * SECOND_MS,
    retries: dns.retries,
  }
}

/** A perspective checks CAA for others, whatever its own service does. */
export function perspectiveSettings(config: Config, version: string): PerspectiveSettings {
  const { bind, port, code, tokens, cert_path, key_path, client_ca_path, max_concurrent } = config.perspective
  return {
    bind,
    port,
    code,
    tokens,
    certFile: cert_path ?? undefined,
    keyFile: key_path ?? undefined,
    clientCaFile: client_ca_path ?? undefined,
    maxConcurrent: max_concurrent,
    jobs: jobSettings(config, version),
    caa: caaLookUp(config),
  }
}

/** The time for remote perspectives to confirm a result; 0 without perspectives. */
export function corroborationMs({ challenges: { perspectives, corroboration } }: Config): number {
  return perspectives.length === 0 ? 0 : corroboration.timeout_seconds * SECOND_MS
}

/** Covers the pool's own grace for an unresponsive thread, and the database write. */
const ATTEMPT_GRACE_SECONDS = 10

/**
 * After this long without a result another instance may adopt a challenge in processing. An attempt
 * starts in the first half (`claimFreshMs`) and is over by the end of the second.
 */
export function staleSeconds(config: Config, extensions: ExtensionThreadData): number {
  const methods = [...methodSettings(config, extensions).values()]
  const longest = Math.max(...methods.map(({ timeout_seconds }) => timeout_seconds))
  const afterwards = afterwardsMs(config) / SECOND_MS
  const attempt = longest + afterwards + ATTEMPT_GRACE_SECONDS
  return Math.max(config.challenges.background_worker.stale_seconds, 2 * attempt)
}

/** @param isPoll whether an enabled challenge worker also looks for its own challenges (`poll_seconds`) */
export function adoptionRules(
  config: Config,
  extensions: ExtensionThreadData,
  isPoll: boolean,
): Omit<AdoptionRules, 'limit'> {
  const enabled = config.challenges.background_worker.enabled && isPoll
  const isHere = isValidatedHere(config, extensions)
  return {
    types: [...methodSettings(config, extensions).keys()].filter((type) => enabled || isHere(type)),
    staleSeconds: enabled ? staleSeconds(config, extensions) : undefined,
  }
}
