/** Publishes the responses to an upstream's challenges: by files of a web server, or by scripts or a module of the operator. */

import { spawn } from 'node:child_process'
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

export interface ScriptSettings {
  placeScript: string
  removeScript: string
  timeoutMs: number
  concurrency: number
  passedVariables: readonly string[]
}

interface DnsScriptSettings extends ScriptSettings {
  propagationMs: number
}

/** Handler `callback_dns`. create: domain, record name, record value; delete: domain, record name. */
export function callbackDns({ propagationMs, ...settings }: DnsScriptSettings): ChallengeHandler {
  return scripts(settings, propagationMs, {
    place: ({ domain, recordName, recordValue }) => [domain, recordName, recordValue],
    remove: ({ domain, recordName }) => [domain, recordName],
  })
}

/** Handler `callback_http`. deploy: domain, token, key authorization; cleanup: domain, token. */
export function callbackHttp(settings: ScriptSettings): ChallengeHandler {
  return scripts(settings, 0, {
    place: ({ domain, token, keyAuthorization }) => [domain, token, keyAuthorization],
    remove: ({ domain, token }) => [domain, token],
  })
}

type Words = (response: ChallengeResponse) => readonly string[]

function scripts(
  { placeScript, removeScript, timeoutMs, concurrency, passedVariables }: ScriptSettings,
  propagationMs: number,
  words: { place: Words; remove: Words },
): ChallengeHandler {
  const limits = { timeoutMs, passedVariables }
  return {
    propagationMs,
    timeoutMs,
    concurrency,
    place: (response, signal) =>
      runScript({ file: placeScript, ...limits }, words.place(response), variablesOf(response), signal),
    remove: (response, signal) =>
      runScript({ file: removeScript, ...limits }, words.remove(response), variablesOf(response), signal),
    close: async () => undefined,
  }
}

/** A script that deletes one value of several under a name needs the value. */
function variablesOf({ domain, token, recordName, recordValue }: ChallengeResponse): Record<string, string> {
  return {
    CHANCERY_DOMAIN: domain,
    CHANCERY_TOKEN: token,
    CHANCERY_RECORD_NAME: recordName,
    CHANCERY_RECORD_VALUE: recordValue,
  }
}

/** A script runs without a shell. Of the environment it gets little: the service's own may hold the secrets of the configuration. */
interface Script {
  file: string
  timeoutMs: number
  /** Names of further variables that it gets from the service's environment. */
  passedVariables: readonly string[]
}

const PASSED = ['PATH', 'HOME', 'LANG', 'TZ']
/** For the log. */
const MAX_OUTPUT = 500

/**
 * @param variables for scripts that want more than their arguments
 * @throws Error with the end of what the script printed
 */
async function runScript(
  { file, timeoutMs, passedVariables }: Script,
  words: readonly string[],
  variables: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  const names = [...PASSED, ...passedVariables]
  const inherited = Object.fromEntries(names.flatMap((name) => passedVariable(name)))
  const overdue = AbortSignal.timeout(timeoutMs)
  const { code, output } = await ended(file, words, { ...inherited, ...variables }, AbortSignal.any([signal, overdue]))
  signal.throwIfAborted()
  if (overdue.aborted) throw new Error(`${file} did not end within ${timeoutMs / 1000} seconds`)
  if (code !== 0) throw new Error(`${file} ended with ${code}${output === '' ? '' : `: ${output}`}`)
}

const passedVariable = (name: string): [string, string][] => {
  const value = process.env[name]
  return value === undefined ? [] : [[name, value]]
}

/** In a process group of its own, so that its children end with it. */
function ended(
  file: string,
  words: readonly string[],
  env: Record<string, string>,
  signal: AbortSignal,
): Promise<{ code: number | string; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, words, { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    const keepEnd = (chunk: Buffer) => {
      output = (output + chunk.toString('utf8')).slice(-MAX_OUTPUT)
    }
    child.stdout.on('data', keepEnd)
    child.stderr.on('data', keepEnd)
    const kill = () => {
      if (child.pid !== undefined) killGroup(child.pid)
    }
    signal.addEventListener('abort', kill, { once: true })
    if (signal.aborted) kill()
    child.on('error', (error) => {
      signal.removeEventListener('abort', kill)
      reject(new Error(`${file} cannot be started: ${(error as NodeJS.ErrnoException).code ?? error.message}`))
    })
    // Not 'close': a child that it left in the background may hold its output open.
    child.on('exit', (code, killedBy) => {
      signal.removeEventListener('abort', kill)
      child.stdout.destroy()
      child.stderr.destroy()
      resolve({ code: code ?? killedBy ?? 'unknown', output: output.replace(/\p{C}+/gu, ' ').trim() })
    })
  })
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // The group has ended already.
  }
}
