/** From a claimed challenge and the configuration to the job that the validation threads understand: one row a method. */

import type { DnsSettings, ValidationJob } from '../../workers/job.ts'
import { issuerDomainNames } from '../config/issuer-names.ts'
import type { Config } from '../config/schema.ts'
import { type ChallengeType, keyAuthorization } from '../protocol/challenge.ts'
import { createUrls } from '../protocol/urls.ts'
import type { ValidationRequest } from '../services/validation.ts'
import { urlSettings } from './settings.ts'

const SECOND_MS = 1000

/** Builds the job of a claimed challenge. */
export function createJobFactory(config: Config, version: string): (request: ValidationRequest) => ValidationJob {
  const { challenges, acme } = config
  const dns = dnsSettings(config)
  const urls = createUrls(urlSettings(config))
  const userAgent = `chancery/${version}${acme.website_url ? ` (${acme.website_url})` : ''}`

  const jobs: Partial<Record<ChallengeType, (request: ValidationRequest) => ValidationJob>> = {
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
    'dns-persist-01': ({ identifier, wildcard, accountId, thumbprint, formerThumbprints }) => {
      const method = challenges.dnspersist01
      const thumbprints = [thumbprint, ...formerThumbprints.toReversed()]
      return {
        type: 'dns-persist-01',
        identifier,
        wildcard,
        accountUrl: urls.numbered('account', accountId),
        ...(method.draft === '02' && { hashed: { prefix: urls.accountHashPrefix, thumbprints } }),
        issuerDomainNames: issuerDomainNames(config),
        allowWildcardPolicy: method.allow_wildcard_policy,
        allowSubdomainPolicy: method.allow_subdomain_policy,
        timeoutMs: method.timeout_seconds * SECOND_MS,
        requireDnssec: method.require_dnssec,
        dns: dnsSettings(config, method.resolvers),
      }
    },
  }

  return (request) => {
    const job = jobs[request.type]
    if (!job) throw new Error(`no validator for ${request.type} in this release`)
    return job(request)
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
