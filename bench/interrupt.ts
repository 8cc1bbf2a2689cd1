/**
 * How a signal ends the bench, one way for all commands.
 *
 * The first ends what is measured: what has begun is finished, what was measured until then is told, what was started is
 * taken down. A second one does not wait for what has begun. Whatever the bench starts is in a process group of its own, so
 * that Ctrl-C, which goes to a whole group, is heard by the bench alone.
 */

import { constants } from 'node:os'

/** One Ctrl-C arrives twice under npm: from the terminal, and passed on by npm. */
const SAME_MS = 500

export class Interrupted extends Error {
  override readonly name = 'Interrupted'
  readonly by: NodeJS.Signals
  /** That of a shell: 128 and the number of the signal. */
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
