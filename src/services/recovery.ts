/**
 * Recovery of interrupted issuances (ARCHITECTURE.md): intents of ended instances, and this instance's own after an
 * outage of the backend.
 *
 * Time has passed, so account, key and authorizations are checked again. An order that is not signed within its time
 * ends.
 * The signer may have signed before, so the serial number is recorded as revoked, unless it has surely not signed.
 */

import { OVERDUE } from '../domain/csr-issuance.ts'
import { uuidTime } from '../shared/lib/uuid.ts'
import { parseTbsCertificate } from '../shared/pki/certificate.ts'
import { type ProblemDocument, problemDocument } from '../shared/protocol/problem.ts'
import type { IssuanceStore, Lapse, PendingIntent } from '../store/issuance-store.ts'
import type { BegunIssuance, Completion, IssuanceOutcome } from './issuance.ts'

export interface RecoveryOptions {
  store: Pick<IssuanceStore, 'adopt' | 'abandon' | 'fail'>
  /** @param isUnsigned false when it may have been signed before */
  complete(issuing: BegunIssuance, isUnsigned: boolean): Promise<Completion>
  /** False while the signer is left alone; then only orders are ended whose time is over. */
  canSign: boolean
  /** Age at which an order ends that the signer does not sign. */
  timeoutSeconds: number
  instanceId: number
  /** Age at which this instance recovers its own intent; above any sign timeout. */
  ownAfterSeconds: number
  /** Age at which it recovers an intent of another, still living instance. */
  othersAfterSeconds?: number
  onRecovered(intent: RecoveredIntent, outcome: RecoveryOutcome): void
}

/** `overdue` may have been signed, `unsigned` has not. */
export type RecoveryOutcome = IssuanceOutcome | Lapse | 'overdue' | 'unsigned'

type RecoveredIntent = Pick<BegunIssuance, 'certificateId' | 'accountId' | 'orderId' | 'serialNumber'>

/** The error of the order (RFC 8555 §7.1.3). */
export const LAPSE_PROBLEMS: Record<Lapse, ProblemDocument> = {
  expired: problemDocument('serverInternal', 'the order expired before its certificate could be issued'),
  'account not valid': problemDocument(
    'unauthorized',
    'the account was deactivated or revoked before the certificate could be issued',
  ),
  'key blocked': problemDocument(
    'badCSR',
    'the key of the CSR was revoked as compromised before the certificate could be issued',
  ),
  'authorization withdrawn': problemDocument(
    'unauthorized',
    'an authorization of the order was deactivated or revoked before the certificate could be issued',
  ),
}

/** Intents signed concurrently in one round; the next round takes more. */
const BATCH = 64

/**
 * One round. A failed intent does not stop the others, and is retried in the next round.
 * @returns how many intents were adopted
 * @throws AggregateError of all failures, after the last intent
 */
export async function recoverIssuances(options: RecoveryOptions): Promise<number> {
  const { store, instanceId, canSign, ownAfterSeconds, othersAfterSeconds } = options
  const overdueBefore = new Date(Date.now() - options.timeoutSeconds * 1000)
  const which = {
    ownOlderThanSeconds: ownAfterSeconds,
    othersOlderThanSeconds: othersAfterSeconds,
    begunBefore: canSign ? undefined : overdueBefore,
  }
  const intents = await store.adopt(instanceId, which, BATCH)
  const results = await Promise.allSettled(intents.map((intent) => recover(intent, overdueBefore, options)))
  const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
  if (errors.length > 0)
    throw new AggregateError(errors, `${errors.length} interrupted issuance(s) could not be recovered`)
  return intents.length
}

async function recover(
  intent: PendingIntent,
  overdueBefore: Date,
  { store, complete, canSign, onRecovered }: RecoveryOptions,
): Promise<void> {
  const { certificateId, accountId, orderId, issuerId, tbs, lapse, isUnsigned } = intent
  const { serialNumber, dnsNames, ipAddresses, notBefore, notAfter } = parseTbsCertificate(tbs)
  const issuing = {
    certificateId,
    accountId,
    orderId,
    issuerId,
    tbs,
    notBefore,
    notAfter,
    serialNumber: serialNumber.toString('hex'),
    names: [...dnsNames, ...ipAddresses],
  }
  const end = async (why: Lapse | 'overdue' | 'unsigned', error: ProblemDocument, maybeSigned: boolean) => {
    const hasEnded = maybeSigned
      ? await store.abandon(certificateId, error, issuing)
      : await store.fail(certificateId, error)
    if (hasEnded) onRecovered(issuing, why)
  }
  const endOverdue = (maybeSigned: boolean) => end(maybeSigned ? 'overdue' : 'unsigned', OVERDUE, maybeSigned)
  if (lapse !== undefined) return end(lapse, LAPSE_PROBLEMS[lapse], !isUnsigned)
  // Where nothing can be signed, only what is overdue was adopted.
  if (!canSign) return endOverdue(!isUnsigned)
  const { outcome, error } = await complete(issuing, isUnsigned)
  if (outcome === 'left to recovery' && error !== undefined && uuidTime(certificateId) < overdueBefore)
    return endOverdue(!isUnsigned || error.mayHaveIssued)
  onRecovered(issuing, outcome)
}
