/** CA profiles (`ca.profiles`; draft-ietf-acme-profiles): what a certificate is for and for how long. */

import type { ExtendedKeyUsage, KeyUsage } from '../pki/oids.ts'
import { Problem } from '../protocol/problem.ts'
import type { SubjectKeyType } from './subject-key.ts'
import type { ValidityPolicy } from './validity.ts'

export const DEFAULT_PROFILE = 'default'

export interface CertificateProfile {
  name: string
  description: string
  keyUsages: readonly KeyUsage[]
  extendedKeyUsages: readonly ExtendedKeyUsage[]
  keyTypes: readonly SubjectKeyType[]
  validity: ValidityPolicy
  /** Issuer id at the signer; undefined takes the signer's first issuer. */
  issuerId: string | undefined
}

/** With the default alone there is nothing to choose, and the directory advertises no profiles. */
export function hasChoiceOfProfiles(profiles: ReadonlyMap<string, unknown>): boolean {
  return profiles.size > 1
}

/** @throws Problem invalidProfile for a profile that the directory does not advertise (draft-ietf-acme-profiles) */
export function chooseProfile(
  profiles: ReadonlyMap<string, CertificateProfile>,
  name: string | undefined,
): CertificateProfile {
  if (name !== undefined && !hasChoiceOfProfiles(profiles))
    throw new Problem('invalidProfile', 'this server has no profiles to choose from; leave profile out')
  const profile = profiles.get(name ?? DEFAULT_PROFILE)
  if (!profile)
    throw new Problem('invalidProfile', `there is no such profile; this server has ${[...profiles.keys()].join(', ')}`)
  return profile
}
