/**
 * The service's side of the threads of a module. No module shares a thread with another, so none can harm another's calls.
 * Every end of a thread ends the call that it was making: time is over, heap is full, the module has exited.
 */

import { deserialize } from 'node:v8'
import { Worker } from 'node:worker_threads'
import { programFile } from '../../src/shared/lib/program-files.ts'
import type { LoadableModule } from './module-contract.ts'
import type { ErrorFacts, ModuleCall, ModuleReport } from './module-entry.ts'

/** Limits of the heap. Buffers outside it have no limit. */
const MODULE_LIMITS = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 32 }
/** Loading should only read and compile files, so that no start depends on the network. */
export const LOAD_MS = 10_000
/** For a module that obeys its signal. */
export const GRACE_MS = 250
const MAX_OUTPUT = 1_000

/**
 * - `unusable`: it could not be loaded, so no call has begun
 * - `settings`: the same, because it refuses its settings
 * - `failed`: the method has thrown
 * - `lost`: the call has begun and has no answer
 */
type ModuleErrorKind = 'unusable' | 'settings' | 'failed' | 'lost'

/** The message is the end of a sentence about the module. */
export class ModuleError extends Error {
  readonly kind: ModuleErrorKind
  /** Facts that the module's own error carries. */
  readonly facts: ErrorFacts

  constructor(kind: ModuleErrorKind, message: string, facts: ErrorFacts = {}) {
    super(message)
    this.kind = kind
    this.facts = facts
  }
}

interface Waiting {
  take(report: ModuleReport): void
  fail(error: ModuleError): void
}

class ModuleThread {
  readonly #worker: Worker
  #isOver = false
  #isReady = false
  #waiting: Waiting | undefined

  /** @param onOutput what the module prints, cut */
  constructor(module: LoadableModule, onOutput: (text: string) => void) {
    // Neither the service's secrets in its environment, nor its log on standard output.
    this.#worker = new Worker(programFile('workers/module/module-entry.ts'), {
      workerData: module,
      env: {},
      resourceLimits: MODULE_LIMITS,
      stdout: true,
      stderr: true,
    })
    for (const stream of [this.#worker.stdout, this.#worker.stderr])
      stream.on('data', (chunk: Buffer) => onOutput(chunk.toString('utf8', 0, MAX_OUTPUT).trimEnd()))
    this.#worker.on('message', (report: ModuleReport) => this.#waiting?.take(report))
    this.#worker.on('error', (error) => this.#end(`broke its thread: ${error.message}`))
    this.#worker.on('exit', (code) => this.#end(`ended its thread (exit code ${code})`))
    // An idle module keeps no process alive.
    this.#worker.unref()
  }

  get isOver(): boolean {
    return this.#isOver
  }

  get isReady(): boolean {
    return this.#isReady
  }

  /** @returns the methods of the list that the module has. @throws ModuleError */
  async load(signal?: AbortSignal): Promise<readonly string[]> {
    const report = await this.#answer(`has not finished loading after ${LOAD_MS / 1000} seconds`, LOAD_MS, signal)
    if (report.type === 'unusable') return this.#refuse(report.isOfSettings ? 'settings' : 'unusable', report.reason)
    if (report.type !== 'ready') return this.#refuse('unusable', 'answered unasked')
    this.#isReady = true
    return report.methods
  }

  /** One at a time. @returns what the method has returned, when the call wants it. @throws ModuleError */
  async call(call: ModuleCall, signal: AbortSignal): Promise<unknown> {
    if (!this.#isReady) await this.load(signal)
    const { timeoutMs } = call
    const answer = this.#answer(`did not end within ${timeoutMs / 1000} seconds`, timeoutMs + GRACE_MS, signal)
    this.#worker.postMessage(call)
    const report = await answer
    if (report.type === 'failed') throw new ModuleError('failed', `failed: ${report.reason}`, report.facts)
    if (report.type !== 'done') return this.#refuse('lost', 'answered unasked')
    return report.answer && this.#unpacked(report.answer)
  }

  async terminate(): Promise<void> {
    this.#end('was stopped')
    await this.#worker.terminate()
  }

  /** A module that posts messages of its own may send anything. */
  #unpacked(answer: Uint8Array): unknown {
    try {
      return deserialize(answer)
    } catch {
      return this.#refuse('lost', 'gave an answer that cannot be read')
    }
  }

  #refuse(kind: ModuleErrorKind, reason: string): never {
    void this.terminate()
    throw new ModuleError(kind, reason)
  }

  #end(reason: string): void {
    this.#isOver = true
    this.#waiting?.fail(new ModuleError(this.#isReady ? 'lost' : 'unusable', reason))
  }

  /** The thread does not outlive an answer that is late. */
  #answer(late: string, timeoutMs: number, signal: AbortSignal | undefined): Promise<ModuleReport> {
    if (this.#isOver) return Promise.reject(new ModuleError('unusable', 'has no thread any more'))
    return new Promise((resolve, reject) => {
      const cut = (reason: string) => {
        this.#end(reason)
        void this.#worker.terminate()
      }
      const timer = setTimeout(cut, timeoutMs, late)
      const aborted = () => cut('was cut off')
      const settled = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', aborted)
        this.#waiting = undefined
      }
      this.#waiting = {
        take(report) {
          settled()
          resolve(report)
        },
        fail(error) {
          settled()
          reject(error)
        },
      }
      signal?.addEventListener('abort', aborted, { once: true })
      if (signal?.aborted) aborted()
    })
  }
}

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
