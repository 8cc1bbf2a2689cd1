/** The common input of every service part, including the teardown that stops it. */

import type { Logger } from 'pino'
import type { LoadedConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import type { Metrics } from '../ops/metrics.ts'
import type { ActorRef } from '../runtime/actor.ts'
import type { SupervisedThread } from '../runtime/thread.ts'
import type { FrontMessages, SupervisorMessages } from './messages.ts'

/** A start takes a second, and much longer on a machine where other work waits for the processor. */
export const THREAD_READY_TIMEOUT_MS = 60_000

/** Stops the parts in reverse order of their start. */
export class Teardown {
  readonly #steps: (() => Promise<unknown>)[] = []

  add(step: () => Promise<unknown>): void {
    this.#steps.push(step)
  }

  /** A failed step does not prevent the others. */
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
  /** Filled when the front threads start; earlier parts read it only later. */
  fronts: SupervisedThread<FrontMessages>[]
  /** `config` changes with SIGHUP; `supervisor` is there once it has started. */
  now: { config: Config; draining: boolean; stopping: boolean; supervisor?: ActorRef<SupervisorMessages> }
  /** Reads the configuration file again; undefined when the service runs without one. */
  reread?: (() => Promise<LoadedConfig>) | undefined
  /** Called with a title as each step begins. */
  onStep(title: string): void
  /** Called when a part cannot recover: the process should stop and be restarted. */
  onBroken(reason: string): void
}
