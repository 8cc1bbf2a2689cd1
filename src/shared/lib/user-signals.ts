/**
 * Takes SIGUSR1 and SIGUSR2 from Node.
 *
 * On SIGUSR1 Node opens its debugger to every user of the machine, with the keys of the process. On
 * SIGUSR2 it ends without a message.
 */

import * as inspector from 'node:inspector'

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

/**
 * A signal during loading has already opened the debugger. A debugger asked for by flag stays open.
 */
function closeUnaskedDebugger(): void {
  const flags = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].join(' ')
  if (inspector.url() !== undefined && !/--inspect(?!-port|-publish)/.test(flags)) inspector.close()
}
