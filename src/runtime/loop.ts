/** Repeats a background round, one at a time, until it is stopped. */

interface LoopOptions {
  name: string
  /** Read before each pause. */
  intervalMs: number | (() => number)
  round(): Promise<void>
  onError(name: string, error: unknown): void
  /** Called when a round succeeds after a failed one. */
  onRecovered?(name: string): void
}

export interface Loop {
  /** Whether the last round succeeded; true before the first. */
  readonly healthy: boolean
  /** Ends the pause: the next round begins, and the interval restarts. */
  wake(): void
  /** Resolves when the current round has ended. */
  stop(): Promise<void>
}

/** A longer timer of Node.js fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export function startLoop({ name, intervalMs, round, onError, onRecovered }: LoopOptions): Loop {
  let healthy = true
  let stopped = false
  let wake: (() => void) | undefined

  async function run(): Promise<void> {
    while (!stopped) {
      try {
        await round()
        if (!healthy) onRecovered?.(name)
        healthy = true
      } catch (error) {
        healthy = false
        if (!stopped) onError(name, error)
      }
      if (!stopped) await pause()
    }
  }

  function pause(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(
        resolve,
        Math.min(LONGEST_TIMER_MS, typeof intervalMs === 'number' ? intervalMs : intervalMs()),
      )
      wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  const finished = run()
  return {
    get healthy() {
      return healthy
    },
    wake: () => wake?.(),
    async stop() {
      stopped = true
      wake?.()
      await finished
    },
  }
}
