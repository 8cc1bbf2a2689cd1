/** The nonces of a front thread, as `nonce.store` says. */

import type { Logger } from 'pino'
import { startLoop } from '../../runtime/loop.ts'
import { NonceAudit, openSharedNonces } from '../../services/stored-nonces.ts'
import { nonceLifetimeSeconds } from '../../settings/server-settings.ts'
import { createNonces, type Nonces, openReplayWindow } from '../../shared/protocol/nonce.ts'
import type { Database } from '../../store/database.ts'
import { createNonceAuditStore, createNonceStore } from '../../store/nonce-store.ts'
import type { FrontThreadData } from '../messages.ts'
import type { Parts } from '../parts.ts'

/** A lost epoch stays unnoticed for this long. */
const REFRESH_MS = 500
/** The record of used nonces may be this far behind. */
const AUDIT_MS = 500

interface NonceParts {
  config: FrontThreadData['config']
  memory: FrontThreadData['nonce']
  db: Database
  log: Logger
  parts: Parts
}

export async function openThreadNonces(options: NonceParts): Promise<Nonces> {
  const source = await openSource(options)
  return options.config.nonce.audit_consumed ? withAudit(source, options) : source
}

async function openSource({ config, memory, db, log, parts }: NonceParts): Promise<Nonces> {
  const expirySeconds = nonceLifetimeSeconds(config)
  const { key, epochMs, window } = memory
  if (config.nonce.store === 'memory') return createNonces({ key, epochMs, expirySeconds }, openReplayWindow(window))
  const nonces = await openSharedNonces(createNonceStore(db), expirySeconds)
  const loop = startLoop({
    name: 'nonce epochs',
    intervalMs: REFRESH_MS,
    round: nonces.refresh,
    onError: (_, error) => log.debug({ err: error }, 'nonce epochs could not be read'),
  })
  parts.add('nonce epochs', loop, (one) => one.stop())
  return nonces
}

function withAudit(nonces: Nonces, { db, log, parts }: NonceParts): Nonces {
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
  parts.add('nonce audit', loop, async (one) => {
    await one.stop()
    await audit.write().catch(onError)
  })
  return audit.noting(nonces)
}
