/**
 * A signal ends every command of the bench in one way; a line shows its progress.
 *
 * The first signal finishes the operations that have begun, reports the measurements, and stops the servers. A second
 * one does not wait for these operations. Each child has a process group of its own: Ctrl-C goes to a whole group, and
 * only the bench may hear it.
 */

import { constants } from 'node:os'
import type { Progress } from './generator/fleet.ts'

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

/** Rewritten in place on a terminal, one line a second elsewhere. */
export interface ProgressLine {
  /** Begins a part of the run and shows its counts once a second until the next call. */
  begin(phase: string, read?: () => Progress): void
  end(): void
}

const INTERVAL_MS = 1000

export function progressLine(out: NodeJS.WriteStream): ProgressLine {
  let timer: NodeJS.Timeout | undefined
  const write = (line: string) => {
    if (out.isTTY) out.write(`\r\x1b[K${line.slice(0, (out.columns || 80) - 1)}`)
    else out.write(`${line}\n`)
  }
  const end = () => {
    clearInterval(timer)
    timer = undefined
    if (out.isTTY) out.write('\r\x1b[K')
  }
  return {
    begin(phase, read) {
      end()
      write(phase)
      if (!read) return
      const startedAt = performance.now()
      let last = read().operations
      timer = setInterval(() => {
        const now = read()
        const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
        const counts = (['failed', 'refused', 'dropped'] as const).filter((name) => now[name] > 0)
        const others = counts.map((name) => `, ${now[name]} ${name}`).join('')
        write(`${phase} ${seconds} s: ${now.operations - last}/s, ${now.operations} done${others}`)
        last = now.operations
      }, INTERVAL_MS)
    },
    end,
  }
}

export function withPrefix(progress: ProgressLine, prefix: string): ProgressLine {
  return { begin: (phase, read) => progress.begin(prefix + phase, read), end: progress.end }
}
