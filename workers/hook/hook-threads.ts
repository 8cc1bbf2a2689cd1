/** The threads of one hook. No hook shares a thread with another, so none can harm another's calls. */

import { HookThread } from './hook-thread.ts'
import type { HookCall, HookModule } from './thread.ts'

export class HookThreads {
  readonly #module: HookModule
  readonly #onOutput: (text: string) => void
  readonly #all = new Set<HookThread>()
  #idle: HookThread[] = []

  constructor(module: HookModule, onOutput: (text: string) => void) {
    this.#module = module
    this.#onOutput = onOutput
  }

  /** As many threads as there are calls at the same time. @throws Error, the end of a sentence about the module */
  async call(call: HookCall, signal: AbortSignal): Promise<void> {
    this.#idle = this.#idle.filter(({ isOver }) => !isOver)
    const thread = this.#idle.pop() ?? new HookThread(this.#module, this.#onOutput)
    this.#all.add(thread)
    try {
      await thread.call(call, signal)
    } finally {
      if (thread.isOver) this.#all.delete(thread)
      else this.#idle.push(thread)
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#all].map((thread) => thread.terminate()))
  }
}

/**
 * Loads a module once, in a thread that lives only for this.
 * @returns the events it handles
 * @throws Error, the end of a sentence about the module
 */
export async function probeHook(module: HookModule): Promise<readonly string[]> {
  const thread = new HookThread(module, () => undefined)
  try {
    return await thread.load()
  } finally {
    await thread.terminate()
  }
}
