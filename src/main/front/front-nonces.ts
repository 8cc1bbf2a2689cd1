/** The nonces of a front thread, by `nonce.store`. */

import type { Logger } from 'pino'
import { startLoop } from '../../runtime/loop.ts'
import { NonceAudit, openSharedNonces } from '../../services/stored-nonces.ts'
import { nonceLifetimeSeconds } from '../../settings/server-settings.ts'
import { createNonces, type Nonces, openReplayWindow } from '../../shared/protocol/nonce.ts'
import type { Database } from '../../store/database.ts'
import { createNonceAuditStore, createNonceStore } from '../../store/nonce-store.ts'
import type { FrontThreadData } from '../messages.ts'

type Config = FrontThreadData['config']

/** A lost epoch stays unnoticed for this long. */
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
