/** The backend `acme_proxy`, wired: its account in the database, its handler, its log lines. */

import type { Logger } from 'pino'
import { createAcmeProxyBackend } from '../ca/acme-proxy/backend.ts'
import { requireHandlerModule } from '../ca/acme-proxy/handlers/module.ts'
import { readReferenceKey } from '../ca/acme-proxy/reference-account.ts'
import type { CsrBackend } from '../ca/csr-backend.ts'
import type { Config } from '../config/schema.ts'
import { acmeProxySettings, challengeHandler, handlerModule, upstreamAccountBox } from '../settings/acme-proxy.ts'
import type { Database } from '../store/database.ts'
import { createUpstreamAccountStore } from '../store/upstream-account-store.ts'

interface AcmeProxyParts {
  config: Config
  db: Database
  log: Logger
}

const FIRST_ANSWER_MS = 15_000

/**
 * An upstream that does not answer is logged and no obstacle: it may be back before the first order.
 *
 * @throws Error in a plain sentence for settings that cannot work
 */
export async function createAcmeProxy({ config, db, log }: AcmeProxyParts): Promise<CsrBackend> {
  const { acme_proxy: proxy } = config.ca
  const settings = acmeProxySettings(config.ca)
  const module = handlerModule(proxy)
  if (module) await requireHandlerModule(module)
  const { directoryUrl, email } = settings.account
  const backend = createAcmeProxyBackend({
    settings,
    handler: challengeHandler(proxy, (output) => log.info({ output }, 'the challenge handler said')),
    accounts: createUpstreamAccountStore(db),
    box: upstreamAccountBox(config),
    readFormerKey: () => readReferenceKey(proxy.storage_path, directoryUrl, email),
    note: (message, facts) => log.warn({ event: 'upstream_order', ...facts }, message),
  })
  await backend.checkHealth(AbortSignal.timeout(FIRST_ANSWER_MS)).catch(({ message }: Error) => {
    log.error({ event: 'upstream_away', reason: message }, 'the upstream ACME service cannot be used at the moment')
  })
  return backend
}
