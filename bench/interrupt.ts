/**
 * How a signal ends the bench, one way for all commands.
 *
 * The first signal finishes the operations that have begun, reports the measurements, and stops the servers. A second
 * one does not wait for these operations. Each child has a process group of its own: Ctrl-C goes to a whole group, and
 * only the bench may hear it.
 */

import { constants } from 'node:os'

/** One Ctrl-C arrives twice under npm: from the terminal, and passed on by npm. */
const SAME_MS = 500

export class Interrupted extends Error {
  override readonly name = 'Interrupted'
  readonly by: NodeJS.Signals
  /** The shell's convention: 128 and the number of the signal. */
  readonly exitCode: number

  constructor(by: NodeJS.Signals) {
    super(`interrupted by ${by}`)
    this.by = by
    this.exitCode = 128 + constants.signals[by]
  }
}

const second = new AbortController()

/** Aborted by the second signal. */
export const again = second.signal

/** @returns what the first signal aborts; its reason is `Interrupted` */
export function interruptBySignals(): AbortSignal {
  const first = new AbortController()
  let firstAt = 0
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => {
      const reason = new Interrupted(signal)
      if (!first.signal.aborted) {
        firstAt = performance.now()
        first.abort(reason)
      } else if (performance.now() - firstAt > SAME_MS) second.abort(reason)
    })
  return first.signal
}

/** @returns undefined for what was interrupted before it had a result */
export async function unlessInterrupted<T>(running: Promise<T>): Promise<T | undefined> {
  try {
    return await running
  } catch (error) {
    if (error instanceof Interrupted) return undefined
    throw error
  }
}
