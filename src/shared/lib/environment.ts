/**
 * Refuses or pins what the environment of a process and signals may undo, before any key or password is read.
 *
 * On SIGUSR1 Node opens its debugger to every user of the machine, with the keys of the process. On
 * SIGUSR2 it ends without a message.
 */

import * as inspector from 'node:inspector'
import { debuglog } from 'node:util'

/** Options that are refused, and what each does. */
const NODE_OPTIONS: readonly (readonly [option: RegExp, does: string])[] = [
  [/--inspect(?!-port|-publish)/, 'opens the process, with its keys, to a debugger'],
  [/--insecure-http-parser/, 'reads HTTP that two programs may read in two ways (RFC 9112 §11.2)'],
  [/--tls-min-v1\.[01]/, 'takes connections by TLS 1.0 and 1.1 (RFC 8996)'],
  [/--tls-keylog/, 'writes the keys of connections into a file'],
  [/--security-revert/, 'takes a mend of Node.js back'],
]
/** With these in NODE_DEBUG Node.js writes passwords and tokens of its connections to standard error. */
const LOGS_SECRETS = ['http', 'https', 'http2', 'net', 'tls', 'undici', 'fetch']

/** @returns a sentence; undefined when nothing is undone */
export function unsafeEnvironment(env: NodeJS.ProcessEnv): string | undefined {
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] === '0')
    return 'NODE_TLS_REJECT_UNAUTHORIZED=0 takes any certificate of database, mail server and CA; unset it, and name their roots in the configuration'
  // Node.js takes `--tls_min_v1.0` and `--tls-min-v"1.0"`, too.
  const options = (env['NODE_OPTIONS'] ?? '').replace(/["\\]/g, '').replaceAll('_', '-')
  const found = NODE_OPTIONS.find(([option]) => option.test(options))
  if (found) return `NODE_OPTIONS has an option that ${found[1]} (${found[0].exec(options)?.[0]}); unset it`
  // Patterns such as `ht*` count as well, and Node.js has read them.
  if (LOGS_SECRETS.some((name) => debuglog(name).enabled))
    return 'NODE_DEBUG writes passwords and tokens of connections to standard error; unset it'
  return undefined
}

/** Ends the process when its environment undoes a protection. No file is made that other users may read or change. */
export function requireSafeEnvironment(program: string): void {
  const refusal = unsafeEnvironment(process.env)
  process.umask(process.umask() | 0o027)
  if (refusal === undefined) return
  process.stderr.write(`${program}: ${refusal}\n`)
  process.exit(1)
}

const SIGNALS = ['SIGUSR1', 'SIGUSR2'] as const

export const RELOAD_OR_STOP = 'SIGHUP has the configuration read again, SIGTERM stops'
export const STOP = 'SIGTERM stops'

let installed: NodeJS.SignalsListener | undefined

/**
 * Ignores both signals in the whole process. A later call changes only `instead` and `say`.
 * @param instead what other signals do, for the sentence
 * @param say gets a sentence for each signal
 */
export function ignoreUserSignals(instead: string, say: (sentence: string) => void): void {
  const listener: NodeJS.SignalsListener = (signal) => say(`${signal} is ignored; ${instead}`)
  for (const signal of SIGNALS) {
    process.on(signal, listener)
    // Remove after adding: without any listener the system's default would end the process.
    if (installed) process.off(signal, installed)
  }
  installed = listener
  closeUnaskedDebugger()
}

/** A signal during loading has already opened the debugger. A debugger asked for by flag stays open. */
function closeUnaskedDebugger(): void {
  const flags = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].join(' ')
  if (inspector.url() !== undefined && !/--inspect(?!-port|-publish)/.test(flags)) inspector.close()
}
