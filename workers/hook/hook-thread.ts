/**
 * The service's side of a thread that runs a hook module. Every end of the thread ends the call
 * that it was making: time is over, heap is full, the module has exited.
 */

import { Worker } from 'node:worker_threads'
import type { HookCall, HookModule, HookReport } from './thread.ts'

/** Limits of the heap. Buffers outside it have no limit. */
const HOOK_LIMITS = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 32 }
/** Loading should only read and compile files, so that no start depends on the network. */
export const LOAD_MS = 10_000
/** For a hook that obeys its signal. */
const GRACE_MS = 250
const MAX_OUTPUT = 1_000

interface Waiting {
  take(report: HookReport): void
  fail(error: Error): void
}

export class HookThread {
  readonly #worker: Worker
  #isOver = false
  #isReady = false
  #waiting: Waiting | undefined

  /** @param onOutput what the module prints, cut */
  constructor(module: HookModule, onOutput: (text: string) => void) {
    // Neither the service's secrets in its environment, nor its log on standard output.
    this.#worker = new Worker(new URL('./thread.js', import.meta.url), {
      ...{ workerData: module, env: {}, resourceLimits: HOOK_LIMITS, stdout: true, stderr: true },
    })
    for (const stream of [this.#worker.stdout, this.#worker.stderr])
      stream.on('data', (chunk: Buffer) => onOutput(chunk.toString('utf8', 0, MAX_OUTPUT).trimEnd()))
    this.#worker.on('message', (report: HookReport) => this.#waiting?.take(report))
    this.#worker.on('error', (error) => this.#end(new Error(`broke its thread: ${error.message}`)))
    this.#worker.on('exit', (code) => this.#end(new Error(`ended its thread (exit code ${code})`)))
    // An idle hook keeps no process alive.
    this.#worker.unref()
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** @returns the events that the module handles. @throws Error, the end of a sentence about the module */
  async load(signal?: AbortSignal): Promise<readonly string[]> {
    const report = await this.#answer(`has not finished loading after ${LOAD_MS / 1000} seconds`, LOAD_MS, signal)
    if (report.type !== 'ready') return this.#refuse(report.type === 'failed' ? report.reason : 'answered unasked')
    this.#isReady = true
    return report.events
  }

  /** One at a time. @throws Error, the end of a sentence about the module */
  async call(call: HookCall, signal: AbortSignal): Promise<void> {
    if (!this.#isReady) await this.load(signal)
    const { timeoutMs } = call
    const answer = this.#answer(`did not end within ${timeoutMs / 1000} seconds`, timeoutMs + GRACE_MS, signal)
    this.#worker.postMessage(call)
    const report = await answer
    if (report.type === 'failed') throw new Error(`failed: ${report.reason}`)
  }

  async terminate(): Promise<void> {
    this.#end(new Error('was stopped'))
    await this.#worker.terminate()
  }

  #refuse(reason: string): never {
    void this.terminate()
    throw new Error(reason)
  }

  #end(error: Error): void {
    this.#isOver = true
    this.#waiting?.fail(error)
  }

  /** The thread does not outlive an answer that is late. */
  #answer(late: string, timeoutMs: number, signal: AbortSignal | undefined): Promise<HookReport> {
    if (this.#isOver) return Promise.reject(new Error('has no thread any more'))
    return new Promise((resolve, reject) => {
      const cut = (reason: string) => {
        this.#end(new Error(reason))
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
    })
  }
}
