/** Nonces of a front thread by `nonce.store`, and the supervisor's part in keeping the shared ones going. */

import { randomBytes } from 'node:crypto'
import { type Loop, startLoop } from '../background/loop.ts'
import type { Config } from '../config/schema.ts'
import { epochLifeSeconds, openSharedNonces } from '../services/shared-nonces.ts'
import { openReplayWindow } from '../shared/lib/replay-window.ts'
import { createNonces, type Nonces } from '../shared/protocol/nonce.ts'
import type { Database } from '../store/database.ts'
import { createNonceStore } from '../store/nonce-store.ts'
import type { FrontThreadData } from './messages.ts'
import { nonceLifetimeSeconds } from './settings/server.ts'

/** A small part of the lead that a new epoch has, and how long a lost one goes unnoticed. */
const REFRESH_MS = 500
const KEY_BYTES = 32

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

/** Makes the first epoch before anybody needs it, and each next one in time. Every instance does; one of them succeeds. */
export async function keepNonceEpochs(config: Config, db: Database, onError: (error: unknown) => void): Promise<Loop> {
  const store = createNonceStore(db)
  const lifeSeconds = epochLifeSeconds(nonceLifetimeSeconds(config))
  const renew = async () => {
    const epochs = await store.epochs()
    const newest = epochs.at(-1)
    // The database's clock decides in the end; this one only saves it the question.
    if (newest && Date.now() - newest.madeAtMs < (lifeSeconds - 1) * 1000) return
    await store.renew(() => randomBytes(KEY_BYTES), lifeSeconds)
  }
  await renew()
  return startLoop({
    name: 'nonce epochs',
    intervalMs: REFRESH_MS,
    round: renew,
    onError: (_, error) => onError(error),
  })
}
