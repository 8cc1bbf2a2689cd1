/** From a claimed challenge and the configuration to the job that the validation threads understand: one row a method. */

import type { DnsSettings, DnsTxtJob, ValidationJob } from '../../workers/job.ts'
import type { Config } from '../config/schema.ts'
import { type BuiltInType, isChallengeType, keyAuthorization } from '../protocol/challenge.ts'
import { createUrls } from '../protocol/urls.ts'
import type { ValidationRequest } from '../services/validation.ts'
import type { ChallengeMethods } from './extensions.ts'
import { extensionSettings, urlSettings } from './settings.ts'

const SECOND_MS = 1000

/** Builds the job of a claimed challenge. */
export function createJobFactory(
  config: Config,
  { extensions }: ChallengeMethods,
  version: string,
): (request: ValidationRequest) => ValidationJob {
  const { challenges, acme } = config
  const dns = dnsSettings(config)
  const urls = createUrls(urlSettings(config))
  const userAgent = `chancery/${version}${acme.website_url ? ` (${acme.website_url})` : ''}`

  const jobs: Partial<Record<BuiltInType, (request: ValidationRequest) => ValidationJob>> = {
    'http-01': ({ identifier, token, thumbprint }) => ({
      type: 'http-01',
      identifier,
      token,
      keyAuthorization: keyAuthorization(token, thumbprint),
      timeoutMs: challenges.http01.timeout_seconds * SECOND_MS,
      port: challenges.http01.port,
      maxResponseBytes: challenges.http01.max_response_bytes,
      blockedNetworks: challenges.http01.blocked_networks,
      userAgent,
      dns,
    }),
    'dns-01': (request) => ({ type: 'dns-01', ...txtJob(config, challenges.dns01, request) }),
    'dns-account-01': (request) => ({
      type: 'dns-account-01',
      ...txtJob(config, challenges.dnsaccount01, request),
      accountUrl: urls.numbered('account', request.accountId),
    }),
  }

  const moduleTypes = new Set<string>(extensions.modules.map(({ type }) => type))
  const extensionJob = (request: ValidationRequest): ValidationJob => {
    const { type, identifier, wildcard, token, thumbprint, accountId } = request
    const timeoutMs = extensionSettings(config, type).timeout_seconds * SECOND_MS
    const accountUrl = urls.numbered('account', accountId)
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
    // A module may stand in for a built-in method; and a type that is neither was once a module's.
    if (!isChallengeType(request.type) || moduleTypes.has(request.type)) return extensionJob(request)
    const job = jobs[request.type]
    if (!job) throw new Error(`no validator for ${request.type} in this release`)
    return job(request)
  }
}

function txtJob(
  config: Config,
  method: Config['challenges']['dns01'],
  { identifier, token, thumbprint, tries }: ValidationRequest,
): DnsTxtJob {
  return {
    identifier,
    keyAuthorization: keyAuthorization(token, thumbprint),
    timeoutMs: method.timeout_seconds * SECOND_MS,
    // Later attempts come after a backoff, which is the wait then.
    propagationWaitMs: tries === 0 ? method.propagation_wait_seconds * SECOND_MS : 0,
    requireDnssec: method.require_dnssec,
    requireAuthoritative: method.require_authoritative,
    blockedNetworks: config.challenges.http01.blocked_networks,
    dns: dnsSettings(config, method.resolvers),
  }
}

/**
 * `dns` as the workers take it (decisions 24a).
 * @param ofMethod resolvers of a method, which override `dns.resolvers` where there are any
 */
function dnsSettings({ dns }: Config, ofMethod: readonly string[] = []): DnsSettings {
  return {
    resolvers: ofMethod.length > 0 ? ofMethod : dns.resolvers,
    zones: dns.zones.map(({ zone, resolvers, addresses }) => ({
      zone,
      ...(resolvers.length > 0 && { resolvers }),
      ...(addresses.length > 0 && { addresses }),
    })),
    timeoutMs: dns.timeout_seconds * SECOND_MS,
    retries: dns.retries,
  }
}
