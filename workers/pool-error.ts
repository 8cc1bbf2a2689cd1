/** Errors of jobs without an answer. A separate file, so that callers do not load Piscina. */

export type WorkerPoolErrorCode = 'full' | 'lost' | 'closed'

/**
 * Says nothing about the target, so it is no ACME problem. Retry, or drop at shutdown (`closed`).
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
