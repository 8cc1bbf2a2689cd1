/**
 * Checks issued certificates against a CSR profile: which would be refused under it.
 *
 * A certificate has the names and the key of its CSR. Usages and subject do not come from there
 * (docs/decisions/certificate-content.md), and of the common names it has at most one.
 */

import type { TbsCertificate } from '../shared/pki/certificate.ts'
import { commonNamesOf, formatName } from '../shared/pki/name.ts'
import type { CsrFacts, CsrProfile } from './csr-profile.ts'

/** Fields that a certificate cannot answer, with the reason. */
export const UNKNOWABLE: Readonly<Record<string, string>> = {
  authorized_signature_algorithms: 'a certificate does not show how its CSR was signed',
  authorized_key_usages: 'the usages of a certificate are those of its CA profile',
  authorized_extended_key_usages: 'the usages of a certificate are those of its CA profile',
  common_name_minimum: 'a certificate has no common name when none of those in its CSR fits',
  subject_regex: 'the subject of a certificate is not the one of its CSR',
  renewal_window_days: 'it depends on when the next certificate is ordered',
}

/** The profile without the demands that a certificate cannot answer. */
export function knowablePart(profile: CsrProfile): CsrProfile {
  const { commonNames, subjectPattern: _, ...rest } = profile
  delete rest.authorizedSignatureAlgorithms
  delete rest.authorizedKeyUsages
  delete rest.authorizedExtendedKeyUsages
  return { ...rest, commonNames: { minimum: 0, maximum: commonNames.maximum } }
}

/** The facts of the CSR, as far as its certificate shows them. */
export function csrFactsOf(tbs: TbsCertificate): CsrFacts {
  return {
    spki: tbs.spki,
    commonNames: commonNamesOf(tbs.subject),
    subjectText: formatName(tbs.subject),
    subjectAltNames: [...tbs.subjectAltNames],
    signatureAlgorithm: undefined,
    signatureAlgorithmOid: '',
    keyUsages: undefined,
    extendedKeyUsages: undefined,
  }
}

/** Characters of names and sentences: a page of them, and the answer stays below 64 KB. */
const MAX_ANSWER = 48_000

/** The examples that fit in an answer; one with thousands of names does not keep the others out. */
export function newestWithinAnswer<
  T extends { certificate: { names: readonly string[] }; violations: readonly string[] },
>(newestFirst: readonly T[]): T[] {
  let characters = 0
  return newestFirst.filter(({ certificate: { names }, violations }) => {
    const { length } = JSON.stringify([names, violations])
    if (characters + length > MAX_ANSWER) return false
    characters += length
    return true
  })
}
