/** Which CA backends a configuration uses, and in which order a profile asks them. Pure. */

import { DEFAULT_PROFILE } from '../domain/certificate-profile.ts'
import { isSigner } from '../domain/csr-issuance.ts'
import type { Config } from './schema.ts'

type Ca = Pick<Config['ca'], 'backend' | 'failover' | 'profiles'>

export const FAILOVER = 'failover'

/** The backends of a profile in order: one, or the list of `ca.failover`. */
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

export const MODULE_PREFIX = 'ext:'

export const isModule = (backend: string): boolean => backend.startsWith(MODULE_PREFIX)

export const usedModules = (ca: Ca): string[] => usedBackends(ca).filter(isModule)

/** Public names in `/healthz`: a module without its folder. The second of two equal names gets a number. */
export function publicNames(backends: readonly string[]): string[] {
  const bare = backends.map((name) => name.replace(/^ext:.*\//, MODULE_PREFIX))
  return bare.map((name, i) => {
    const before = bare.slice(0, i).filter((other) => other === name).length
    return before === 0 ? name : `${name} ${before + 1}`
  })
}

/** The key that names the backend. */
export function keyOfBackend(ca: Config['ca'], backend: string): string {
  if (ca.backend === backend) return 'ca.backend'
  const profile = Object.entries(ca.profiles).find(([, one]) => one.backend === backend)
  return profile ? `ca.profiles.${profile[0]}.backend` : 'ca.failover.backends'
}

export const hasSigner = ({ ca }: Pick<Config, 'ca'>): boolean => signerBackend(ca) !== undefined

/** The backends that issue from a CSR and that some profile may ask. */
export const csrBackendNames = ({ ca }: Pick<Config, 'ca'>): readonly string[] =>
  usedBackends(ca).filter((name) => !isSigner(name))
