/** Settings of CA modules (`ext:` backends). */

import type { ModuleBackendOptions } from '../ca/module/module-backend.ts'
import { CA_METHODS } from '../ca/module/module-backend.ts'
import { type CaModuleConfig, caModuleConfig, keyOfBackend, usedModules } from '../config/ca-module.ts'
import type { Config } from '../config/schema.ts'
import { urlOfModule } from '../shared/lib/module-reference.ts'

export interface CaModuleSettings extends Pick<ModuleBackendOptions, 'name' | 'module' | 'timeoutMs' | 'concurrency'> {
  /** The key that names it. */
  key: string
  /** PEM files. */
  trustAnchors: readonly string[]
  accepted: CaModuleConfig['limits']['accepted']
}

/** The settings of every module that some profile may ask. */
export function caModules({ ca }: Config): CaModuleSettings[] {
  return usedModules(ca).map((name) => {
    const { reference, limits, settings } = configOf(ca, name)
    return {
      name,
      key: keyOfBackend(ca, name),
      module: { ...reference, url: urlOfModule(reference), settings, methods: CA_METHODS },
      timeoutMs: limits.timeout_seconds * 1000,
      concurrency: limits.concurrency,
      trustAnchors: limits.trust_anchors,
      accepted: limits.accepted,
    }
  })
}

function configOf(ca: Config['ca'], name: string): CaModuleConfig {
  const read = caModuleConfig(ca, name)
  if (typeof read === 'string') throw new Error(`ca.extension_settings ${read}`)
  return read
}
