/** A front thread's nonces by `nonce.store`, and the supervisor's renewal of shared epochs. */

import { type Loop, startLoop } from '../background/loop.ts'
import type { Config } from '../config/schema.ts'
import { epochLifeSeconds, makeNonceKey, openSharedNonces } from '../services/shared-nonces.ts'
import { openReplayWindow } from '../shared/lib/replay-window.ts'
import { createNonces, type Nonces } from '../shared/protocol/nonce.ts'
import type { Database } from '../store/database.ts'
import { createNonceStore } from '../store/nonce-store.ts'
import type { FrontThreadData } from './messages.ts'
import { nonceLifetimeSeconds } from './settings/server.ts'

/** A small part of the lead of a new epoch. A lost epoch stays unnoticed for this long. */
const REFRESH_MS = 500

export interface ThreadNonces {
  nonces: Nonces
  close(): Promise<void>
}

export async function openThreadNonces(
  config: Config,
  { key, epochMs, window }: FrontThreadData['nonce'],
  db: Database,
  onError: (error: unknown) => void,
): Promise<ThreadNonces> {
  const expirySeconds = nonceLifetimeSeconds(config)
  if (config.nonce.store === 'memory')
    return { nonces: createNonces({ key, epochMs, expirySeconds }, openReplayWindow(window)), close: async () => {} }
  const nonces = await openSharedNonces(createNonceStore(db), expirySeconds)
  const loop = startLoop({
    name: 'nonce epochs',
    intervalMs: REFRESH_MS,
    round: nonces.refresh,
    onError: (_, error) => onError(error),
  })
  return { nonces, close: () => loop.stop() }
}

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
    intervalMs: REFRESH_MS,
    round: renew,
    onError: (_, error) => onError(error),
  })
}
