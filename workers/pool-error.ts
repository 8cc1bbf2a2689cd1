/** How a job ends without an answer; apart from pool.ts, so that callers do not load Piscina. */

export type WorkerPoolErrorCode = 'full' | 'lost' | 'closed'

/**
 * No verdict. Says nothing about the target, so it is no ACME problem: retry,
 * or drop at shutdown (`closed`).
 */
export class WorkerPoolError extends Error {
  readonly code: WorkerPoolErrorCode
  readonly retryable = true

  constructor(code: WorkerPoolErrorCode, message: string, options: { cause?: unknown } = {}) {
    super(message, options)
    this.name = 'WorkerPoolError'
    this.code = code
  }
}
