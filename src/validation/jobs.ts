/** Builds the job of a triggered challenge from the configuration, one table row per method. */

import { hash } from 'node:crypto'
import type {
  CaaJob,
  CaaSubject,
  DnsMethodJob,
  DnsPersist01Job,
  DnsSettings,
  DnsTxtJob,
  Http01Job,
  TlsAlpn01Job,
  ValidationJob,
} from '../../workers/job.ts'
import { issuerDomainNames } from '../config/challenge-facts.ts'
import type { Config } from '../config/schema.ts'
import { type IsRegistry, publicSuffixes } from '../domain/identifier-policy.ts'
import type { ValidationRequest } from '../services/challenge-triggers.ts'
import { urlSettings } from '../settings/server-settings.ts'
import { extensionSettings } from '../settings/validation-settings.ts'
import { accountLabel } from '../shared/protocol/account-labels.ts'
import { type BuiltInType, isChallengeType, keyAuthorization } from '../shared/protocol/challenge.ts'
import type { Identifier } from '../shared/protocol/identifier.ts'
import { Urls } from '../shared/protocol/urls.ts'
import type { ChallengeMethods } from './extensions.ts'

const SECOND_MS = 1000

/** Builds the CAA check of these names for this account. */
export type CaaJobFactory = (account: NamedAccount, subjects: readonly CaaSubject[]) => CaaJob

type NamedAccount = Pick<ValidationRequest, 'accountId' | 'accountPath'>

/** @param caaJob undefined when CAA is not enforced */
export function createJobFactory(
  config: Config,
  { extensions }: ChallengeMethods,
  version: string,
  caaJob: CaaJobFactory | undefined,
): (request: ValidationRequest) => ValidationJob {
  const { challenges } = config
  const urls = new Urls(urlSettings(config))
  const isRegistry = challenges.dnspersist01.allow_subdomain_policy
    ? publicSuffixes(config.security.identifier_policy.public_suffix_list)
    : undefined

  const jobs: Record<BuiltInType, (request: ValidationRequest) => ValidationJob> = {
    'http-01': ({ identifier, token, thumbprint }) =>
      http01Job(config, version, { identifier, token, keyAuthorization: keyAuthorization(token, thumbprint) }),
    'dns-01': (request) => ({ type: 'dns-01', ...txtJob(config, challenges.dns01, request, digestOf(request)) }),
    'dns-account-01': (request) => {
      const accountUrl = urls.account(request.accountId, request.accountPath)
      const job = txtJob(config, challenges.dnsaccount01, request, digestOf(request))
      return { type: 'dns-account-01', ...job, accountLabel: accountLabel(accountUrl), accountUrl }
    },
    'tls-alpn-01': (request) => tlsAlpn01Job(config, request.identifier, digestOf(request)),
    'dns-persist-01': (request) => persistJob({ config, urls, isRegistry }, request),
  }

  const moduleTypes = new Set<string>(extensions.modules.map(({ type }) => type))
  const extensionJob = (request: ValidationRequest): ValidationJob => {
    const { type, identifier, wildcard, token, thumbprint, accountId, accountPath } = request
    const timeoutMs = extensionSettings(config, type).timeout_seconds * SECOND_MS
    const accountUrl = urls.account(accountId, accountPath)
    const challenge = {
      type,
      identifier,
      wildcard,
      token,
      keyAuthorization: keyAuthorization(token, thumbprint),
      accountUrl,
    }
    return { type: 'extension', challenge: { ...challenge, timeoutMs }, timeoutMs }
  }

  return (request) => {
    const { type } = request
    // A module may replace a built-in method. An unknown type belonged to a removed module.
    const job = isChallengeType(type) && !moduleTypes.has(type) ? jobs[type] : extensionJob
    const caa = request.identifier.type === 'dns' ? caaJob?.(request, [caaSubject(request)]) : undefined
    return { ...job(request), ...(caa && { caa }) }
  }
}

function digestOf({ token, thumbprint }: ValidationRequest): string {
  return hash('sha256', keyAuthorization(token, thumbprint), 'base64url')
}

function caaSubject({ identifier, wildcard, type }: ValidationRequest): CaaSubject {
  return { name: identifier.value, wildcard, method: type }
}

export function http01Job(
  config: Config,
  version: string,
  what: Pick<Http01Job, 'identifier' | 'token' | 'keyAuthorization'>,
): Http01Job {
  const { http01 } = config.challenges
  const { website_url } = config.acme
  return {
    type: 'http-01',
    ...what,
    timeoutMs: http01.timeout_seconds * SECOND_MS,
    port: http01.port,
    httpsPort: http01.https_port,
    maxResponseBytes: http01.max_response_bytes,
    blockedNetworks: http01.blocked_networks,
    userAgent: `chancery/${version}${website_url ? ` (${website_url})` : ''}`,
    dns: dnsSettings(config),
  }
}

export function tlsAlpn01Job(config: Config, identifier: Identifier, keyAuthorizationDigest: string): TlsAlpn01Job {
  const { tlsalpn01 } = config.challenges
  return {
    type: 'tls-alpn-01',
    identifier,
    keyAuthorizationDigest,
    timeoutMs: tlsalpn01.timeout_seconds * SECOND_MS,
    port: tlsalpn01.port,
    blockedNetworks: tlsalpn01.blocked_networks,
    dns: dnsSettings(config),
  }
}

export function txtJob(
  config: Config,
  method: Config['challenges']['dns01'],
  asked: Pick<ValidationRequest, 'identifier' | 'tries'>,
  keyAuthorizationDigest: string,
): DnsTxtJob {
  return { ...dnsMethodJob(config, method, asked), keyAuthorizationDigest }
}

interface PersistSettings {
  config: Config
  urls: Urls
  /** Undefined without a public suffix list. */
  isRegistry: IsRegistry | undefined
}

function persistJob({ config, urls, isRegistry }: PersistSettings, request: ValidationRequest): DnsPersist01Job {
  const method = config.challenges.dnspersist01
  const thumbprints = [request.thumbprint, ...request.formerThumbprints.toReversed()]
  return {
    type: 'dns-persist-01',
    ...dnsMethodJob(config, method, request),
    wildcard: request.wildcard,
    accountUrl: urls.account(request.accountId, request.accountPath),
    ...(method.draft === '02' && { hashed: { prefix: urls.accountHashPrefix, thumbprints } }),
    issuerDomainNames: issuerDomainNames(config),
    allowWildcardPolicy: method.allow_wildcard_policy,
    allowSubdomainPolicy: method.allow_subdomain_policy,
    ...(isRegistry && { leastLabelsAbove: registrableLabels(request.identifier, isRegistry) }),
  }
}

/**
 * Counts the labels of the registrable domain. A name above it, such as `co.uk`, has unrelated
 * owners below and proves nothing for them (BR 3.2.2.6).
 */
function registrableLabels({ value }: Identifier, isRegistry: IsRegistry): number {
  const labels = value.split('.')
  const cut = labels.findIndex((_, index) => isRegistry(labels.slice(index).join('.')))
  return cut === -1 ? 0 : labels.length - cut + 1
}

function dnsMethodJob(
  config: Config,
  method: Config['challenges']['dns01'],
  { identifier, tries }: Pick<ValidationRequest, 'identifier' | 'tries'>,
): DnsMethodJob {
  return {
    identifier,
    timeoutMs: method.timeout_seconds * SECOND_MS,
    // Later attempts skip this wait, because the backoff has already passed.
    propagationWaitMs: tries === 0 ? method.propagation_wait_seconds * SECOND_MS : 0,
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
export function dnsSettings({ dns }: Config, ofMethod: readonly string[] = []): DnsSettings {
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
