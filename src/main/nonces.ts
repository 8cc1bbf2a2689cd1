/** A front thread's nonces by `nonce.store`, and the supervisor's renewal of shared epochs. */

import type { Logger } from 'pino'
import { type Loop, startLoop } from '../background/loop.ts'
import type { Config } from '../config/schema.ts'
import { NonceAudit } from '../services/nonce-audit.ts'
import { epochLifeSeconds, makeNonceKey, openSharedNonces } from '../services/shared-nonces.ts'
import { nonceLifetimeSeconds } from '../settings/server.ts'
import { openReplayWindow } from '../shared/lib/replay-window.ts'
import { createNonces, type Nonces } from '../shared/protocol/nonce.ts'
import type { Database } from '../store/database.ts'
import { createNonceAuditStore } from '../store/nonce-audit-store.ts'
import { createNonceStore } from '../store/nonce-store.ts'
import type { FrontThreadData } from './messages.ts'

/** A small part of the lead of a new epoch. A lost epoch stays unnoticed for this long. */
const REFRESH_MS = 500
/** How far the record of used nonces may be behind. */
const AUDIT_MS = 500

export interface ThreadNonces {
  nonces: Nonces
  close(): Promise<void>
}

export async function openThreadNonces(
  config: Config,
  memory: FrontThreadData['nonce'],
  db: Database,
  log: Logger,
): Promise<ThreadNonces> {
  const source = await openSource(config, memory, db, log)
  return config.nonce.audit_consumed ? withAudit(source, db, log) : source
}

async function openSource(
  config: Config,
  { key, epochMs, window }: FrontThreadData['nonce'],
  db: Database,
  log: Logger,
): Promise<ThreadNonces> {
  const expirySeconds = nonceLifetimeSeconds(config)
  if (config.nonce.store === 'memory')
    return { nonces: createNonces({ key, epochMs, expirySeconds }, openReplayWindow(window)), close: async () => {} }
  const nonces = await openSharedNonces(createNonceStore(db), expirySeconds)
  const loop = startLoop({
    name: 'nonce epochs',
    intervalMs: REFRESH_MS,
    round: nonces.refresh,
    onError: (_, error) => log.debug({ err: error }, 'nonce epochs could not be read'),
  })
  return { nonces, close: () => loop.stop() }
}

function withAudit({ nonces, close }: ThreadNonces, db: Database, log: Logger): ThreadNonces {
  const audit = new NonceAudit(createNonceAuditStore(db), (count) =>
    log.warn({ count }, 'used nonces are not recorded: the database was away for too long'),
  )
  const onError = (error: unknown) => log.warn({ err: error }, 'used nonces could not be recorded')
  const loop = startLoop({
    name: 'nonce audit',
    intervalMs: AUDIT_MS,
    round: () => audit.write(),
    onError: (_, error) => onError(error),
  })
  return {
    nonces: audit.noting(nonces),
    async close() {
      await close()
      await loop.stop()
      await audit.write().catch(onError)
    },
  }
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
