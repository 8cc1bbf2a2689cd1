/** Publishes the responses to an upstream's challenges: by files of a web server, or by a module of the operator. */

import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { LoadableModule } from '../../../workers/module/module-contract.ts'
import { ModuleThreads, probeModule } from '../../../workers/module/module-thread.ts'

/** One response, in the forms of both methods (RFC 8555 §8.3, §8.4). */
export interface ChallengeResponse {
  /** The name of the authorization, without `*.`; an IP address for http-01. */
  domain: string
  token: string
  keyAuthorization: string
  /** `_acme-challenge.<domain>`. */
  recordName: string
  /** base64url of the SHA-256 of the key authorization. */
  recordValue: string
}

export interface ChallengeHandler {
  /** From the last response placed to the moment the upstream may look. */
  readonly propagationMs: number
  /** The longest that one call may take. */
  readonly timeoutMs: number
  /** Calls at the same time. */
  readonly concurrency: number
  /** May be called again for a response that is there. @throws Error for the log */
  place(response: ChallengeResponse, signal: AbortSignal): Promise<void>
  /** May be called for a response that is not there. @throws Error for the log */
  remove(response: ChallengeResponse, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

/** Mode of the files of `file_http`. The web server runs as another user, and reads them. */
const FILE_MODE = 0o644
const TIMEOUT_MS = 10_000
const CONCURRENCY = 16

/** Handler `file_http`: files in the folder of a web server that serves the names. */
export function fileHttp({ webroot }: { webroot: string }): ChallengeHandler {
  const folder = path.resolve(webroot, '.well-known', 'acme-challenge')
  return {
    propagationMs: 0,
    timeoutMs: TIMEOUT_MS,
    concurrency: CONCURRENCY,
    async place({ token, keyAuthorization }) {
      await mkdir(folder, { recursive: true })
      const file = path.join(folder, token)
      // A reader finds the whole file or none.
      await writeFile(`${file}.new`, keyAuthorization, { mode: FILE_MODE })
      await rename(`${file}.new`, file)
    },
    async remove({ token }) {
      const file = path.join(folder, token)
      await Promise.all([rm(file, { force: true }), rm(`${file}.new`, { force: true })])
    },
    close: async () => undefined,
  }
}

export const MODULE_METHODS = ['onChallengePlace', 'onChallengeRemove'] as const

export interface ModuleSettings {
  module: LoadableModule
  propagationMs: number
  timeoutMs: number
  concurrency: number
}

/**
 * Handler `ext:`: a module in a thread of its own, with the contract of hook modules.
 * @param onOutput what the module prints, cut
 */
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
