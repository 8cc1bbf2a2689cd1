/**
 * CA profiles (`ca.profiles`; draft-ietf-acme-profiles): purpose, keys and validity of
 * certificates.
 */

import { SIGNATURE_ALGORITHMS, type SignatureAlgorithm } from '../shared/pki/algorithms.ts'
import type { ExtendedKeyUsage, KeyUsage } from '../shared/pki/oids.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { BackendName } from './csr-issuance.ts'
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
  /** Issuer ids at the signer; empty takes the signer's first issuer. */
  issuerIds: readonly string[]
  /** Who is asked, in order; one of them for most. */
  backends: readonly BackendName[]
}

/** The default alone is no choice, so the directory advertises no profiles. */
export function hasChoiceOfProfiles(profiles: ReadonlyMap<string, unknown>): boolean {
  return profiles.size > 1
}

/**
 * @param allowed profiles of the account's credential, its default first; undefined allows any
 * @throws Problem invalidProfile for a profile that the directory does not advertise, or that this
 *   account may not use (draft-ietf-acme-profiles)
 */
export function chooseProfile(
  profiles: ReadonlyMap<string, CertificateProfile>,
  name: string | undefined,
  allowed?: readonly string[],
): CertificateProfile {
  if (name !== undefined && !hasChoiceOfProfiles(profiles))
    throw new Problem('invalidProfile', 'this server has no profiles to choose from; leave profile out')
  const unchosen = allowed === undefined || allowed.includes(DEFAULT_PROFILE) ? DEFAULT_PROFILE : (allowed[0] as string)
  const profile = profiles.get(name ?? unchosen)
  if (!profile)
    throw new Problem('invalidProfile', `there is no such profile; this server has ${[...profiles.keys()].join(', ')}`)
  if (allowed && !allowed.includes(profile.name))
    throw new Problem(
      'invalidProfile',
      `this account may not order ${profile.name}; it may order ${allowed.join(', ')}`,
    )
  return profile
}

interface IssuerFacts {
  id: string
  signatureAlgorithm: SignatureAlgorithm
  notBefore: Date
  notAfter: Date
}

/**
 * Chooses an issuer that is valid now, of those the profile names; without names the first valid
 * one. Of several, prefers the kind of the request's key, so that RSA clients get RSA chains.
 * @param subjectKind `kind` of the CSR's key
 */
export function chooseIssuer<I extends IssuerFacts>(
  issuers: readonly I[],
  issuerIds: readonly string[],
  subjectKind: string,
  now: Date,
): I | undefined {
  const named = issuerIds.flatMap((id) => issuers.find((issuer) => issuer.id === id) ?? [])
  const usable = (issuerIds.length === 0 ? issuers : named).filter(
    ({ notBefore, notAfter }) => notBefore <= now && now < notAfter,
  )
  if (issuerIds.length < 2) return usable[0]
  const isRsa = ({ signatureAlgorithm }: I) => SIGNATURE_ALGORITHMS[signatureAlgorithm].keyKind === 'rsa'
  return usable.find((issuer) => isRsa(issuer) === (subjectKind === 'rsa')) ?? usable[0]
}
