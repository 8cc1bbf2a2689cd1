/** From a claimed challenge and the configuration to the job that the validation threads understand: one row a method. */

import type { DnsSettings, DnsTxtJob, ValidationJob } from '../../workers/job.ts'
import type { Config } from '../config/schema.ts'
import { type ChallengeType, keyAuthorization } from '../protocol/challenge.ts'
import { createUrls } from '../protocol/urls.ts'
import type { ValidationRequest } from '../services/validation.ts'
import { urlSettings } from './settings.ts'

const SECOND_MS = 1000

export interface JobFactory {
  /** Builds the job of a claimed challenge. */
  jobFor(request: ValidationRequest): ValidationJob
  /** Settings that stand in every job of a method; the threads get them once, when they start. */
  shared: readonly object[]
}

export function createJobFactory(config: Config, version: string): JobFactory {
  const { challenges, acme } = config
  const shared: object[] = []
  const share = <T extends object>(settings: T): T => {
    shared.push(settings)
    return settings
  }
  const dns = share(dnsSettings(config))
  const dns01 = share(dnsSettings(config, challenges.dns01.resolvers))
  const dnsAccount01 = share(dnsSettings(config, challenges.dnsaccount01.resolvers))
  const blockedNetworks = share(challenges.http01.blocked_networks)
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
      blockedNetworks,
      userAgent,
      dns,
    }),
    'dns-01': (request) => ({
      type: 'dns-01',
      ...txtJob(challenges.dns01, request),
      blockedNetworks,
      dns: dns01,
    }),
    'dns-account-01': (request) => ({
      type: 'dns-account-01',
      ...txtJob(challenges.dnsaccount01, request),
      blockedNetworks,
      dns: dnsAccount01,
      accountUrl: urls.numbered('account', request.accountId),
    }),
  }

  return {
    jobFor(request) {
      const job = jobs[request.type]
      if (!job) throw new Error(`no validator for ${request.type} in this release`)
      return job(request)
    },
    shared,
  }
}

function txtJob(
  method: Config['challenges']['dns01'],
  { identifier, token, thumbprint, tries }: ValidationRequest,
): Omit<DnsTxtJob, 'blockedNetworks' | 'dns'> {
  return {
    identifier,
    keyAuthorization: keyAuthorization(token, thumbprint),
    timeoutMs: method.timeout_seconds * SECOND_MS,
    // Later attempts come after a backoff, which is the wait then.
    propagationWaitMs: tries === 0 ? method.propagation_wait_seconds * SECOND_MS : 0,
    requireDnssec: method.require_dnssec,
    requireAuthoritative: method.require_authoritative,
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
