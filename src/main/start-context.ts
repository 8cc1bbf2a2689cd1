/** What every part of the service is started with, and where it leaves how it is stopped. */

import type { Logger } from 'pino'
import type { Config } from '../config/schema.ts'
import type { Metrics } from '../ops/metrics.ts'
import type { SupervisedThread } from '../runtime/thread.ts'
import type { FrontMessages } from './messages.ts'

/** Stops the parts in the reverse order of their start. */
export class Teardown {
  readonly #steps: (() => Promise<unknown>)[] = []

  add(step: () => Promise<unknown>): void {
    this.#steps.push(step)
  }

  /** A step that fails does not keep the others from their turn. */
  async run(onError: (error: unknown) => void): Promise<void> {
    for (let step = this.#steps.pop(); step; step = this.#steps.pop()) await step().catch(onError)
  }
}

export interface StartContext {
  config: Config
  version: string
  log: Logger
  metrics: Metrics
  teardown: Teardown
  /** Filled when the front threads are started; the parts before them only ask later. */
  fronts: SupervisedThread<FrontMessages>[]
  /** `config` is what SIGHUP has left. */
  now: { config: Config; stopping: boolean }
  /** Called as each step begins, with what it does. */
  onStep(title: string): void
  /** A part is beyond repair from inside; the process should stop and be started again. */
  onBroken(reason: string): void
}
