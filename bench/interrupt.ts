/**
 * How a signal ends the bench, one way for all commands.
 *
 * The first ends what is measured: nothing new is begun, what has begun is finished, and what was measured until then is told. A
 * second gives that up. In either case what was started is taken down, text and JSON say that the run was interrupted, and the exit
 * code is that of a shell: 128 and the number of the signal. Whatever the bench starts is in a process group of its own, so that Ctrl-C, which
 * goes to a whole group, is heard by the bench alone.
 */

import { constants } from 'node:os'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
export type EndSignal = (typeof SIGNALS)[number]

/** One Ctrl-C arrives twice under npm: from the terminal, and passed on by npm. */
const SAME_MS = 500

export class Interrupted extends Error {
  override readonly name = 'Interrupted'
  readonly by: EndSignal
  readonly exitCode: number

  constructor(by: EndSignal) {
    super(`interrupted by ${by}`)
    this.by = by
    this.exitCode = 128 + constants.signals[by]
  }
}

/** Aborted by the first signal; reasons are `Interrupted`. */
export interface Interrupt extends AbortSignal {
  /** Aborted by the second. */
  readonly again: AbortSignal
}

/** @returns undefined for a run that went on to its end. */
export function interruptedBy(interrupt: Interrupt): EndSignal | undefined {
  return interrupt.reason instanceof Interrupted ? interrupt.reason.by : undefined
}

/** From now on no signal ends this process; whoever calls it sees to that. */
export function interruptBySignals(): Interrupt {
  const [first, second] = [new AbortController(), new AbortController()]
  let firstAt = 0
  for (const signal of SIGNALS)
    process.on(signal, () => {
      const reason = new Interrupted(signal)
      if (!first.signal.aborted) {
        firstAt = performance.now()
        first.abort(reason)
      } else if (performance.now() - firstAt > SAME_MS) second.abort(reason)
    })
  return Object.assign(first.signal, { again: second.signal })
}

/** @returns undefined for what was interrupted before it had a result. */
export async function unlessInterrupted<T>(running: Promise<T>): Promise<T | undefined> {
  try {
    return await running
  } catch (error) {
    if (error instanceof Interrupted) return undefined
    throw error
  }
}
