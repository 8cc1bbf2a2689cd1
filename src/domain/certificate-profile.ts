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

/** @throws Problem invalidProfile */
export function chooseProfile(
  profiles: ReadonlyMap<string, CertificateProfile>,
  name: string | undefined,
): CertificateProfile {
  const profile = profiles.get(name ?? DEFAULT_PROFILE)
  if (!profile)
    throw new Problem('invalidProfile', `there is no such profile; this server has ${[...profiles.keys()].join(', ')}`)
  return profile
}
