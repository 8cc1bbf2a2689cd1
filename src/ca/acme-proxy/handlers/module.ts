/**
 * Handler `ext:`: a module in a thread of its own, with the contract of hook modules and the two
 * methods `onChallengePlace` and `onChallengeRemove`.
 */

import type { LoadableModule } from '../../../../workers/module/contract.ts'
import { ModuleThreads, probeModule } from '../../../../workers/module/module-threads.ts'
import type { ChallengeHandler, ChallengeResponse } from './handler.ts'

export const MODULE_METHODS = ['onChallengePlace', 'onChallengeRemove'] as const

export interface ModuleSettings {
  module: LoadableModule
  propagationMs: number
  timeoutMs: number
  concurrency: number
}

/** @param onOutput what the module prints, cut */
export function moduleHandler(settings: ModuleSettings, onOutput: (text: string) => void): ChallengeHandler {
  const { module, propagationMs, timeoutMs, concurrency } = settings
  const threads = new ModuleThreads(module, onOutput)
  const call =
    (method: (typeof MODULE_METHODS)[number]) => async (argument: ChallengeResponse, signal: AbortSignal) => {
      const context = { eventId: argument.token }
      await threads.call({ method, argument, context, timeoutMs, isAnswered: false }, signal)
    }
  return {
    propagationMs,
    timeoutMs,
    concurrency,
    place: call('onChallengePlace'),
    remove: call('onChallengeRemove'),
    close: () => threads.close(),
  }
}

/** Loads the module once. @throws Error in a plain sentence that names the key */
export async function requireHandlerModule(module: LoadableModule): Promise<void> {
  const named = `ca.acme_proxy.challenge_handler: ${module.module}#${module.exportName}`
  const handled = await probeModule(module).catch((error: Error) => {
    throw new Error(`${named} is not usable: ${error.message}`, { cause: error })
  })
  if (handled.length < MODULE_METHODS.length)
    throw new Error(`${named} needs the methods onChallengePlace and onChallengeRemove`)
}
