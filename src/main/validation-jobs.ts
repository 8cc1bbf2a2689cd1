/** From a claimed challenge and the configuration to the job that the validation threads understand: one row a method. */

import type { DnsSettings, ValidationJob } from '../../workers/job.ts'
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
  }

  const urls = createUrls(urlSettings(config))
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

/** `dns` as the workers take it (decisions 24a). */
function dnsSettings({ dns }: Config): DnsSettings {
  return {
    resolvers: dns.resolvers,
    zones: dns.zones.map(({ zone, resolvers, addresses }) => ({
      zone,
      ...(resolvers.length > 0 && { resolvers }),
      ...(addresses.length > 0 && { addresses }),
    })),
    timeoutMs: dns.timeout_seconds * SECOND_MS,
  }
}
