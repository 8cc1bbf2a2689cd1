/**
 * SIGUSR1 and SIGUSR2, taken from Node: it would open its debugger on the one, to every user of the machine and with the
 * keys of this process in reach, and end without a word on the other.
 */

import * as inspector from 'node:inspector'

const SIGNALS = ['SIGUSR1', 'SIGUSR2'] as const

export const RELOAD_OR_STOP = 'SIGHUP has the configuration read again, SIGTERM stops'
export const STOP = 'SIGTERM stops'

let installed: NodeJS.SignalsListener | undefined

/**
 * Ignores both from now on, in the whole process; a later call changes only who is told.
 * @param instead the signals that do something here
 * @param say gets a sentence whenever one comes
 */
export function ignoreUserSignals(instead: string, say: (sentence: string) => void): void {
  const listener: NodeJS.SignalsListener = (signal) => say(`${signal} is ignored; ${instead}`)
  for (const signal of SIGNALS) {
    process.on(signal, listener)
    // Second: without any listener the signal would be the system's again, which ends the process.
    if (installed) process.off(signal, installed)
  }
  installed = listener
  closeUnaskedDebugger()
}

/** A signal that came while the program was being loaded has opened it already. Who starts Node with the flag wants it. */
function closeUnaskedDebugger(): void {
  const flags = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].join(' ')
  if (inspector.url() !== undefined && !/--inspect(?!-port|-publish)/.test(flags)) inspector.close()
}
