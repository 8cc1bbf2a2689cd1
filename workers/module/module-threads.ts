/** The threads of one module. No module shares a thread with another, so none can harm another's calls. */

import type { LoadableModule } from './module-contract.ts'
import type { ModuleCall } from './module-entry.ts'
import { ModuleThread } from './module-thread.ts'

export class ModuleThreads {
  readonly #module: LoadableModule
  readonly #onOutput: (text: string) => void
  readonly #all = new Set<ModuleThread>()
  #idle: ModuleThread[] = []

  constructor(module: LoadableModule, onOutput: (text: string) => void) {
    this.#module = module
    this.#onOutput = onOutput
  }

  /** Uses as many threads as there are calls at the same time. @throws ModuleError */
  call(call: ModuleCall, signal: AbortSignal): Promise<unknown> {
    return this.#withThread((thread) => thread.call(call, signal))
  }

  /** Resolves when a thread has loaded the module. @throws ModuleError */
  async load(signal: AbortSignal): Promise<void> {
    await this.#withThread(async (thread) => {
      if (!thread.isReady) await thread.load(signal)
    })
  }

  async close(): Promise<void> {
    await Promise.all([...this.#all].map((thread) => thread.terminate()))
  }

  async #withThread<T>(work: (thread: ModuleThread) => Promise<T>): Promise<T> {
    this.#idle = this.#idle.filter(({ isOver }) => !isOver)
    const thread = this.#idle.pop() ?? new ModuleThread(this.#module, this.#onOutput)
    this.#all.add(thread)
    try {
      return await work(thread)
    } finally {
      if (thread.isOver) this.#all.delete(thread)
      else this.#idle.push(thread)
    }
  }
}

/**
 * Loads a module once, in a thread that lives only for this.
 * @returns the methods of the list that it has
 * @throws ModuleError
 */
export async function probeModule(module: LoadableModule): Promise<readonly string[]> {
  const thread = new ModuleThread(module, () => undefined)
  try {
    return await thread.load()
  } finally {
    await thread.terminate()
  }
}
