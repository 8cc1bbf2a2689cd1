/** Settings of validation: offered methods, timeouts, retries, limits, and CAA. */

import type { ExtensionThreadData } from '../../workers/extension/extension-task.ts'
import { EXTENSION_DEFAULTS } from '../config/challenge-facts.ts'
import type { Config } from '../config/schema.ts'
import type { ValidationPolicy } from '../domain/validation-attempt.ts'
import type { DispatchLimits } from '../services/validation-dispatcher.ts'
import type { BuiltInType, ChallengeType } from '../shared/protocol/challenge.ts'
import type { AdoptionRules } from '../store/challenge-store.ts'

const SECOND_MS = 1000

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
  // CAA and perspectives have their own timeouts and run after the method.
  const afterwardsMs = (isCaaEnforced(config) ? caaTimeoutMs(config) : 0) + corroborationMs(config)
  const { backoff_base_seconds, backoff_max_seconds } = config.challenges
  return {
    maxRetries: Object.fromEntries([...methods].map(([type, { max_retries }]) => [type, max_retries])),
    maxSpentMs: Object.fromEntries(
      [...methods].map(([type, { timeout_seconds }]) => [type, 2 * timeout_seconds * SECOND_MS + afterwardsMs]),
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

/** CAA records are checked only if they could name this CA. */
export function isCaaEnforced({ acme }: Config): boolean {
  return acme.caa_enforce && acme.caa_identities.length > 0
}

/** A silent name server costs one timeout; the second timeout covers the zones above it. */
export function caaTimeoutMs({ dns }: Config): number {
  return 2 * dns.timeout_seconds * 1000
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
  const caa = isCaaEnforced(config) ? caaTimeoutMs(config) / SECOND_MS : 0
  const corroboration = corroborationMs(config) / SECOND_MS
  const attempt = longest + caa + corroboration + ATTEMPT_GRACE_SECONDS
  return Math.max(config.challenges.background_worker.stale_seconds, 2 * attempt)
}

/**
 * @param isPoll whether an enabled challenge worker also looks for its own challenges
 * (`poll_seconds`)
 */
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
