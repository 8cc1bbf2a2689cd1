/** Which CA backends a configuration uses, and in which order a profile asks them. Pure. */

import { DEFAULT_PROFILE } from '../domain/certificate-profile.ts'
import { isSigner } from '../domain/csr-issuance.ts'
import type { Config } from './schema.ts'

type Ca = Pick<Config['ca'], 'backend' | 'failover' | 'profiles'>

export const FAILOVER = 'failover'

/** The backends of a profile in order: one, or those of `ca.failover`. */
export function backendsOf({ backend, failover, profiles }: Ca, profile: string): readonly string[] {
  const named = profiles[profile]?.backend ?? backend
  return named === FAILOVER ? failover.backends : [named]
}

/** Every backend that some profile may ask, once. */
export function usedBackends(ca: Ca): readonly string[] {
  return [...new Set([DEFAULT_PROFILE, ...Object.keys(ca.profiles)].flatMap((profile) => backendsOf(ca, profile)))]
}

export const usesBackend = ({ ca }: Pick<Config, 'ca'>, name: string): boolean => usedBackends(ca).includes(name)

/** The backend behind the signer; undefined when no certificate is signed here. */
export function signerBackend(ca: Ca): string | undefined {
  return usedBackends(ca).find(isSigner)
}
