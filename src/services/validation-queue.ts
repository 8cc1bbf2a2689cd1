/** Queue of validations; starts every one that may run (docs/decisions/validation-queue.md). */

import { FairQueue, type FairQueueOptions, type WaitReason } from '../shared/lib/fair-queue.ts'

export interface ValidationQueueOptions<T> extends FairQueueOptions<T> {
  concurrency: number
  /** Resolves when the item has ended, and never rejects. */
  run(item: T): Promise<void>
}

export class ValidationQueue<T> {
  readonly #fair: FairQueue<T>
  readonly #options: ValidationQueueOptions<T>
  #isStopped = false

  constructor(options: ValidationQueueOptions<T>) {
    this.#fair = new FairQueue(options)
    this.#options = options
  }

  push(item: T): void {
    this.#fair.push(item)
    this.#startWhatMay()
  }

  waitingFor(): Record<WaitReason, number> {
    return this.#fair.waitingFor()
  }

  /** Includes the item that has waited longest. */
  heads(): Iterable<T> {
    return this.#fair.heads()
  }

  /** Starts nothing more. */
  stop(): void {
    this.#isStopped = true
  }

  #startWhatMay(): void {
    while (!this.#isStopped && this.#fair.out < this.#options.concurrency) {
      const item = this.#fair.take()
      if (item === undefined) return
      void this.#run(item)
    }
  }

  async #run(item: T): Promise<void> {
    await this.#options.run(item)
    this.#fair.giveBack(item)
    this.#startWhatMay()
  }
}
