/** Loads and checks CA modules before the service uses them; a broken one refuses the start. */

import type { LoadableModule } from '../../../workers/module/contract.ts'
import { ModuleError } from '../../../workers/module/module-thread.ts'
import { probeModule } from '../../../workers/module/module-threads.ts'

export type { LoadableModule }

/** Every method that a CA module may have. */
export const CA_METHODS = ['issue', 'issuer', 'sign', 'revoke', 'checkHealth', 'renewalInfo'] as const

/**
 * Loads the module once.
 * @param key of the configuration that names it
 * @returns the module with the methods that it has
 * @throws Error in a plain sentence that names the key
 */
export async function loadCaModule(module: LoadableModule, key: string): Promise<LoadableModule> {
  const named = `${module.module}#${module.exportName}`
  const methods = await probeModule(module).catch((cause: ModuleError) => {
    const isOfSettings = cause instanceof ModuleError && cause.kind === 'settings'
    throw new Error(
      isOfSettings
        ? `ca.extension_settings: ${named} refuses them: ${cause.message}`
        : `${key}: ${named} is not usable: ${cause.message}`,
      { cause },
    )
  })
  const fault = faultOf(methods)
  if (fault !== undefined) throw new Error(`${key}: ${named} ${fault}`)
  return { ...module, methods }
}

function faultOf(methods: readonly string[]): string | undefined {
  const has = (method: string) => methods.includes(method)
  if (has('issue') && has('sign')) return 'has issue and sign; it either issues or signs, so take one of them out'
  if (has('issue')) return undefined
  if (!has('sign')) return 'needs the method issue, or issuer and sign (docs/ca-modules.md)'
  return has('issuer') ? undefined : 'has sign and needs issuer beside it (docs/ca-modules.md)'
}
