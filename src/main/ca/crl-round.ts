/** A round of CRLs: none is built without a signer, nor from a database that lacks what the signer has recorded. */

import type { CaBackend } from '../../ca/backend.ts'
import { connectionTrouble } from '../../ca/signer-check.ts'
import type { CrlBuilder } from '../../services/crl/crl-builder.ts'
import type { Reconciliation } from '../../services/reconcile/reconciliation.ts'
import type { CrlStore } from '../../store/crl-store.ts'

export interface CrlRoundParts {
  ca: Pick<CaBackend, 'outage' | 'unreachable'>
  /** Undefined when no certificate is signed here. */
  reconciliation: Pick<Reconciliation, 'round'> | undefined
  /** Undefined when no CRL is published. */
  crls: { builder: Pick<CrlBuilder, 'round'>; store: Pick<CrlStore, 'noteObstacle'> } | undefined
}

/**
 * The noted obstacle tells `chancery crl rebuild` why it waits.
 * @returns how many lists were published
 * @throws errors of the database, and of the signer that does not say what it has recorded
 */
export async function crlRound({ ca, reconciliation, crls }: CrlRoundParts): Promise<number> {
  const failure = ca.unreachable()
  const behind = failure ? connectionTrouble(failure) : await reconciliation?.round()
  const obstacle = behind ?? ca.outage()?.reason
  if (obstacle === undefined) return crls?.builder.round() ?? 0
  await crls?.store.noteObstacle(obstacle)
  return 0
}
