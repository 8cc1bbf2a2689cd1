/** A background task that runs a round again and again, one at a time, and stops after its current one. */

export interface LoopOptions {
  name: string
  /** Asked before each pause. */
  intervalMs: number | (() => number)
  round(): Promise<void>
  onError(name: string, error: unknown): void
  /** A round ended well after one that failed. */
  onRecovered?(name: string): void
}

export interface Loop {
  /** Whether the last round ended well; true before the first. */
  readonly healthy: boolean
  /** Ends the pause: the next round begins, and a new interval counts from now. */
  wake(): void
  /** Resolves when the current round has ended. */
  stop(): Promise<void>
}

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
      const timer = setTimeout(resolve, typeof intervalMs === 'number' ? intervalMs : intervalMs())
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
