/** The supervisor's renewal of nonce epochs that instances share. */

import { type Loop, startLoop } from '../background/loop.ts'
import type { Config } from '../config/schema.ts'
import { epochLifeSeconds, makeNonceKey } from '../services/shared-nonces.ts'
import { nonceLifetimeSeconds } from '../settings/server.ts'
import type { Database } from '../store/database.ts'
import { createNonceStore } from '../store/nonce-store.ts'

/** A small part of the lead of a new epoch. */
const RENEW_MS = 500

/**
 * Creates the first epoch before any request, and each next one in time. Every instance tries; one
 * of them succeeds.
 */
export async function keepNonceEpochs(config: Config, db: Database, onError: (error: unknown) => void): Promise<Loop> {
  const store = createNonceStore(db)
  const lifeSeconds = epochLifeSeconds(nonceLifetimeSeconds(config))
  const renew = async () => {
    const epochs = await store.epochs()
    const newest = epochs.at(-1)
    // The database's clock decides; the local clock only saves a query.
    if (newest && Date.now() - newest.madeAtMs < (lifeSeconds - 1) * 1000) return
    await store.renew(makeNonceKey, lifeSeconds)
  }
  await renew()
  return startLoop({
    name: 'nonce epochs',
    intervalMs: RENEW_MS,
    round: renew,
    onError: (_, error) => onError(error),
  })
}
