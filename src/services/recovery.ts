/**
 * Recovery of interrupted issuances (ARCHITECTURE.md): intents of ended instances, and this
 * instance's own after an outage of the backend.
 *
 * An outage may last days, so account, key and authorizations are checked again. An earlier
 * signature is dropped: it is in the signer's audit chain, and no client has seen it.
 */

import { parseTbsCertificate } from '../shared/pki/tbs-certificate.ts'
import { type ProblemDocument, problemDocument } from '../shared/protocol/problem.ts'
import type { IssuanceStore, Lapse, PendingIntent } from '../store/issuance-store.ts'
import type { IssuanceOutcome, Issuing } from './issuance.ts'

export interface RecoveryOptions {
  store: Pick<IssuanceStore, 'adopt' | 'fail'>
  complete(issuing: Issuing): Promise<IssuanceOutcome>
  instanceId: number
  /** Age at which this instance recovers its own intent; above any sign timeout. */
  ownAfterSeconds: number
  /** Age at which it recovers an intent of another, still living instance. */
  othersAfterSeconds?: number

  onRecovered(intent: RecoveredIntent, outcome: IssuanceOutcome | Lapse): void
}

export type RecoveredIntent = Pick<PendingIntent, 'certificateId' | 'accountId' | 'orderId'>

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
  const { store, instanceId, ownAfterSeconds, othersAfterSeconds } = options
  const intents = await store.adopt(instanceId, ownAfterSeconds, BATCH, othersAfterSeconds)
  const results = await Promise.allSettled(intents.map((intent) => recover(intent, options)))
  const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
  if (errors.length > 0)
    throw new AggregateError(errors, `${errors.length} interrupted issuance(s) could not be recovered`)
  return intents.length
}

async function recover(intent: PendingIntent, { store, complete, onRecovered }: RecoveryOptions): Promise<void> {
  const { lapse } = intent
  if (lapse !== undefined) {
    await store.fail(intent.certificateId, LAPSE_PROBLEMS[lapse])
    onRecovered(intent, lapse)
    return
  }
  const tbs = parseTbsCertificate(intent.tbs)
  const outcome = await complete({
    certificateId: intent.certificateId,
    accountId: intent.accountId,
    orderId: intent.orderId,
    issuerId: intent.issuerId,
    serialNumber: tbs.serialNumber.toString('hex'),
    names: [...tbs.dnsNames, ...tbs.ipAddresses],
    notBefore: tbs.notBefore,
    notAfter: tbs.notAfter,
    tbs: intent.tbs,
  })
  onRecovered(intent, outcome)
}
