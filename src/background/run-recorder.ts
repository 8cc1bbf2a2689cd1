/** Tells the database when tasks ran: one statement every few seconds, however often they run. */

import type { TaskRuns } from '../domain/background-run.ts'

const INTERVAL_MS = 5_000
/** An error may quote what a stranger sent. */
const MAX_ERROR = 300

export interface RunRecorderOptions {
  write(runs: readonly TaskRuns[]): Promise<void>
  onError(error: unknown): void
}

export class RunRecorder {
  readonly #options: RunRecorderOptions
  readonly #timer: NodeJS.Timeout
  #runs = new Map<string, TaskRuns>()
  #last: Promise<void> = Promise.resolve()

  constructor(options: RunRecorderOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#flush(), INTERVAL_MS).unref()
  }

  /** @param error of a run that failed */
  ran(task: string, nextInMs: number, error?: unknown): void {
    const now = Date.now()
    const failed = error !== undefined
    const former = this.#runs.get(task)
    this.#runs.set(task, {
      task,
      lastRunAt: new Date(now),
      nextRunAt: new Date(now + nextInMs),
      errors: (former?.errors ?? 0) + (failed ? 1 : 0),
      lastError: failed ? textOf(error) : former?.lastError,
    })
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#flush()
    await this.#last
  }

  #flush(): void {
    const runs = [...this.#runs.values()]
    if (runs.length === 0) return
    this.#runs = new Map()
    this.#last = this.#options.write(runs).catch(this.#options.onError)
  }
}

const textOf = (error: unknown) => (error instanceof Error ? error.message : String(error)).slice(0, MAX_ERROR)
