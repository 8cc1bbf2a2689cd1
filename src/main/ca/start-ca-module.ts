/** The backend of a CA module, wired: what it is given to sign, and its log lines. */

import type { Logger } from 'pino'
import type { CsrBackend } from '../../ca/csr-backend.ts'
import { createModuleBackend, type LoadableModule, loadCaModule } from '../../ca/module/module-backend.ts'
import { moduleContent } from '../../ca/module/signing-steps.ts'
import type { Config } from '../../config/schema.ts'
import { caModules } from '../../settings/backend-settings.ts'
import { certificateProfiles } from '../../settings/order-settings.ts'
import type { Database } from '../../store/database.ts'
import { serialNumbers } from './start-issuance.ts'

interface CaModuleParts {
  config: Config
  db: Database
  log: Logger
}

/** Loads every module in use once. @throws Error in a plain sentence that names the key */
export async function requireCaModules(config: Config): Promise<LoadableModule[]> {
  return Promise.all(caModules(config).map(({ module, key }) => loadCaModule(module, key)))
}

/**
 * @throws Error in a plain sentence for a module that cannot be used
 */
export async function createCaModule(name: string, { config, db, log }: CaModuleParts): Promise<CsrBackend> {
  const settings = caModules(config).find((one) => one.name === name)
  if (!settings) throw new Error(`${name} is not among the modules in use`)
  const { key, timeoutMs, concurrency } = settings
  const module = await loadCaModule(settings.module, key)
  const profiles = certificateProfiles(config)
  const { aia_issuer_urls: caIssuersUrls, policy_oids: policyOids } = config.ca
  const backend = createModuleBackend({
    name,
    module,
    timeoutMs,
    concurrency,
    profileOf: (profile) => profiles.get(profile),
    build: moduleContent({ profiles, caIssuersUrls, policyOids }, serialNumbers(config, db)),
    onOutput: (output) => log.info({ backend: name, output }, 'a CA module has printed something'),
  })
  if (backend.ignoresRevocations)
    log.warn({ backend: name }, 'the CA module has no method revoke; its CA is not told of revocations')
  return backend
}
