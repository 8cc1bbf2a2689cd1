/**
 * Handler `ext:`: a module in a thread of its own, with the contract of hook modules and the two
 * methods `onChallengePlace` and `onChallengeRemove`.
 */

import { HookThreads, probeHook } from '../../../../workers/hook/hook-threads.ts'
import type { HookModule } from '../../../../workers/hook/thread.ts'
import type { ChallengeHandler, ChallengeResponse } from './handler.ts'

export const HANDLER_EVENTS = ['challenge.place', 'challenge.remove'] as const

export interface ModuleSettings {
  module: HookModule
  propagationMs: number
  timeoutMs: number
  concurrency: number
}

/** @param onOutput what the module prints, cut */
export function moduleHandler(settings: ModuleSettings, onOutput: (text: string) => void): ChallengeHandler {
  const { module, propagationMs, timeoutMs, concurrency } = settings
  const threads = new HookThreads(module, onOutput)
  const call = (event: (typeof HANDLER_EVENTS)[number]) => (response: ChallengeResponse, signal: AbortSignal) =>
    threads.call({ event, eventId: response.token, context: response, timeoutMs }, signal)
  return {
    ...{ propagationMs, timeoutMs, concurrency },
    place: call('challenge.place'),
    remove: call('challenge.remove'),
    close: () => threads.close(),
  }
}

/** Loads the module once. @throws Error in a plain sentence that names the key */
export async function requireHandlerModule(module: HookModule): Promise<void> {
  const named = `ca.acme_proxy.challenge_handler: ${module.module}#${module.exportName}`
  const handled = await probeHook(module).catch((error: Error) => {
    throw new Error(`${named} is not usable: ${error.message}`, { cause: error })
  })
  if (handled.length < HANDLER_EVENTS.length)
    throw new Error(`${named} needs the methods onChallengePlace and onChallengeRemove`)
}
