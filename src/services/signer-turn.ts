/** The signer in its turn of a failover: an issuance from a CSR becomes one that the signer signs. */

import { commonNameOf } from '../domain/csr-check.ts'
import { parseCsr } from '../shared/pki/csr.ts'
import type { ClaimedIssuance, CsrIssuanceStore } from '../store/csr-issuance-store.ts'
import type { CsrOutcome } from './csr-step.ts'
import type { Issuance } from './issuance.ts'

/** `unsigned`: the intent is there, and the signer has surely not signed it. `not given`: there is none. */
export type SignerTurn = CsrOutcome | 'unsigned' | 'not given'

/**
 * @returns `pending` where recovery takes over
 * @throws Problem when the signer has no issuer for it; database errors
 */
export async function issueBySigner(
  row: ClaimedIssuance,
  issuance: Issuance,
  store: Pick<CsrIssuanceStore, 'giveToSigner'>,
  instanceId: number,
): Promise<SignerTurn> {
  const csr = parseCsr(row.csr)
  const { identifiers, notBefore, notAfter } = row
  const subject = { spki: csr.spki, identifiers, commonName: commonNameOf(csr) }
  const profile = issuance.requireProfile(row.profile)
  const built = await issuance.build(subject, profile, { notBefore, notAfter }, new Date())
  const issuing = await issuance.beginInPlace(built, row, (intent) => store.giveToSigner(intent, instanceId))
  if (!issuing) return 'not given'
  const { outcome, error } = await issuance.complete(issuing, built.findings)
  if (outcome !== 'left to recovery') return outcome
  return error?.retryable && !error.mayHaveIssued ? 'unsigned' : 'pending'
}
