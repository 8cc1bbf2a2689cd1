/** What validation is made with: the methods that are offered, their time, repeats and bounds, and CAA. */

import type { ExtensionThreadData } from '../../../workers/extension/task.ts'
import type { Config } from '../../config/schema.ts'
import { EXTENSION_DEFAULTS } from '../../config/sections/challenges.ts'
import type { ValidationPolicy } from '../../domain/validation-policy.ts'
import type { DispatchLimits } from '../../services/validation-dispatcher.ts'
import type { BuiltInType, ChallengeType } from '../../shared/protocol/challenge.ts'
import type { AdoptionRules } from '../../store/challenge-store.ts'

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

/** Without a name that records could permit there is nothing to check them for. */
export function isCaaEnforced({ acme }: Config): boolean {
  return acme.caa_enforce && acme.caa_identities.length > 0
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
