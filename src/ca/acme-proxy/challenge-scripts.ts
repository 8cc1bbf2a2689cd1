/**
 * Handlers `callback_dns` and `callback_http`: one script publishes a response, another withdraws it.
 *
 * A script runs without a shell. It gets a small environment: the service's own may hold the secrets of the
 * configuration file.
 */

import { spawn } from 'node:child_process'
import type { ChallengeHandler, ChallengeResponse } from './challenge-handler.ts'

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

/** create: domain, record name, record value; delete: domain, record name. */
export function callbackDns({ propagationMs, ...settings }: DnsScriptSettings): ChallengeHandler {
  return scripts(settings, propagationMs, {
    place: ({ domain, recordName, recordValue }) => [domain, recordName, recordValue],
    remove: ({ domain, recordName }) => [domain, recordName],
  })
}

/** deploy: domain, token, key authorization; cleanup: domain, token. */
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
