/**
 * The parts of a step: the request for a backend, the change from one backend to another, and the end of an issuance.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { BackendState, IssuanceRequest, IssuanceStep } from '../ca/csr-backend.ts'
import type { GuardedCsrBackend } from '../ca/guarded-backend.ts'
import { commonNameOf } from '../domain/csr-check.ts'
import { parseCsr } from '../shared/pki/csr.ts'
import type { ClaimedIssuance, CsrIssuanceStore } from '../store/csr-issuance-store.ts'
import type { Issuance, IssuanceOutcome, OrderFacts } from './issuance.ts'

const DAY_MS = 86_400_000

export const requestOf = (row: ClaimedIssuance): IssuanceRequest => ({ ...row, validityDays: daysOf(row) })

/** Rounded, because notAfter is included (RFC 5280 §4.1.2.5). */
function daysOf({ notBefore, notAfter }: Pick<ClaimedIssuance, 'notBefore' | 'notAfter'>): number {
  return Math.max(1, Math.round((notAfter.getTime() - notBefore.getTime()) / DAY_MS))
}

export type Left = { status: 'left' } | { status: 'held elsewhere' } | (IssuanceStep & { status: 'refused' })

/**
 * Withdraws what a backend has published for an issuance that another one takes over. Each answer is
 * committed, so that the withdrawal continues after a crash.
 *
 * @param save false when another instance holds the row
 * @throws CaError; then something stays published
 */
export async function leaveBackend(
  backend: Pick<GuardedCsrBackend, 'leave'> | undefined,
  row: ClaimedIssuance,
  save: (state: BackendState) => Promise<boolean>,
): Promise<Left> {
  let state = row.state as BackendState | undefined
  while (backend?.leave && state !== undefined && state !== null) {
    const answer = await backend.leave(requestOf(row), state)
    if (answer.status === 'refused') return answer
    if (answer.status === 'issued') throw new Error('a backend has issued what it was to leave')
    state = answer.state
    if (!(await save(state))) return { status: 'held elsewhere' }
    if (answer.retryAfterMs > 0) await sleep(answer.retryAfterMs)
  }
  return { status: 'left' }
}

export type CsrOutcome = Exclude<IssuanceOutcome, 'left to recovery'>

export interface BackendFacts extends OrderFacts {
  backend: string
}

export function factsOf({ certificateId, accountId, orderId, backend }: ClaimedIssuance): BackendFacts {
  return { certificateId, accountId, orderId, backend }
}

/** `unsigned`: the intent is there, and the signer has surely not signed it. `not given`: there is none. */
export type SignerTurn = CsrOutcome | 'unsigned' | 'not given'

/**
 * The signer's turn in a failover: an issuance from a CSR becomes one that the signer signs.
 *
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
  const { outcome, error } = await issuance.signAndRecord(issuing, built.findings)
  if (outcome !== 'left to recovery') return outcome
  return error?.retryable && !error.mayHaveIssued ? 'unsigned' : 'pending'
}
