/**
 * Who would be affected by a CSR profile that is not stored: the last certificates are tried on it,
 * as far as a certificate shows what its CSR said.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { DatabasePool } from 'slonik'
import { notFound } from '../../domain/admin-error.ts'
import { type CsrProfile, csrProfileViolations } from '../../domain/csr-profile.ts'
import { csrFactsOf, knowablePart, newestWithinAnswer, UNKNOWABLE } from '../../domain/profile-check.ts'
import { parseCertificate } from '../../shared/pki/certificate.ts'
import { hashSpki } from '../../shared/pki/spki.ts'
import { profileOf } from './csr-profiles.ts'
import { type IssuedCertificate, listIssuedLately } from './profile-check-store.ts'
import { findProfile } from './profile-store.ts'

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
