/**
 * Who would be affected by a CSR profile that is not stored: the last certificates are tried on it,
 * as far as a certificate shows what its CSR said.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { DatabasePool } from 'slonik'
import { notFound } from '../../domain/admin-error.ts'
import { type CsrFacts, type CsrProfile, csrProfileViolations } from '../../domain/csr-profile.ts'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import { commonNamesOf, formatName } from '../../shared/pki/name.ts'
import { hashSpki } from '../../shared/pki/spki.ts'
import type { TbsCertificate } from '../../shared/pki/tbs-certificate.ts'
import { profileOf } from './csr-profiles.ts'
import { type IssuedCertificate, listIssuedLately } from './profile-check-store.ts'
import { findProfile } from './profile-store.ts'

/** Fields that a certificate cannot answer, with the reason. */
const UNKNOWABLE: Readonly<Record<string, string>> = {
  authorized_signature_algorithms: 'a certificate does not show how its CSR was signed',
  authorized_key_usages: 'the usages of a certificate are those of its CA profile',
  authorized_extended_key_usages: 'the usages of a certificate are those of its CA profile',
  common_name_minimum: 'a certificate has no common name when none of those in its CSR fits',
  subject_regex: 'the subject of a certificate is not the one of its CSR',
  renewal_window_days: 'it depends on when the next certificate is ordered',
}

/** The profile without the demands that a certificate cannot answer. */
function knowablePart(profile: CsrProfile): CsrProfile {
  const { commonNames, subjectPattern: _, ...rest } = profile
  delete rest.authorizedSignatureAlgorithms
  delete rest.authorizedKeyUsages
  delete rest.authorizedExtendedKeyUsages
  return { ...rest, commonNames: { minimum: 0, maximum: commonNames.maximum } }
}

/** What the CSR of a certificate must have said. */
function csrFactsOf(tbs: TbsCertificate): CsrFacts {
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

export interface ProfileCheck {
  /** Certificates that were tried. */
  checked: number
  /** False when the time was over before the last of them. */
  isComplete: boolean
  refused: number
  /** Accounts of the refused ones. */
  accounts: number
  examples: { certificate: IssuedCertificate; violations: string[] }[]
  /** Fields of the data that no certificate answers, with the reason. */
  unknowable: { field: string; reason: string }[]
}

export const CHECKED_CERTIFICATES = 1_000
const MOST_EXAMPLES = 50
const MOST_VIOLATIONS = 5
/** Expressions may take half a second for one certificate, and other requests wait meanwhile. */
const MOST_MS = 2_000
const TURN_MS = 20

export type CheckProfile = (data: object, profileId: string | undefined) => Promise<ProfileCheck>

/**
 * @param profileId a stored profile that the data would replace: only its accounts count
 * @throws AdminError for wrong data or an unknown profile
 */
export async function checkProfile(
  db: DatabasePool,
  data: object,
  profileId: string | undefined,
): Promise<ProfileCheck> {
  const profile = profileOf(data)
  if (profileId !== undefined && !(await findProfile(db, profileId))) throw notFound('CSR profile')
  const certificates = await listIssuedLately(db, profileId, CHECKED_CERTIFICATES)
  const tried = await tryAll(certificates, profile)
  const unknowable = Object.entries(UNKNOWABLE)
    .filter(([field]) => Object.hasOwn(data, field))
    .map(([field, reason]) => ({ field, reason }))
  return { ...tried, isComplete: tried.checked === certificates.length, unknowable }
}

async function tryAll(certificates: readonly IssuedCertificate[], profile: CsrProfile) {
  const demands = knowablePart(profile)
  const deadline = performance.now() + MOST_MS
  const accounts = new Set<string>()
  const examples: ProfileCheck['examples'] = []
  const keysSeen = new Set<string>()
  let [checked, refused, turnBegan] = [0, 0, performance.now()]
  // The oldest first: a key counts as reused where it comes the second time.
  for (const certificate of certificates.toReversed()) {
    const now = performance.now()
    if (now > deadline) break
    if (now - turnBegan > TURN_MS) {
      await nextTurn()
      turnBegan = performance.now()
    }
    checked++
    const { tbs } = parseCertificate(certificate.der)
    const key = hashSpki(tbs.spki).toString('base64')
    const history = { keyCertified: keysSeen.has(key), notDue: false }
    const violations = csrProfileViolations(csrFactsOf(tbs), demands, { history, most: MOST_VIOLATIONS })
    keysSeen.add(key)
    if (violations.length === 0) continue
    refused++
    accounts.add(certificate.account_id)
    examples.unshift({ certificate, violations })
    if (examples.length > MOST_EXAMPLES) examples.pop()
  }
  return { checked, refused, accounts: accounts.size, examples: newestWithinAnswer(examples) }
}
