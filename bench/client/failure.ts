/** What can go wrong with one operation: a short kind that failures are counted by, and one sentence for a reader. */

/**
 * `kind` is the ACME problem type without its prefix (`badNonce`, `rateLimited`), `http-<status>` for a reply that is
 * not a problem document, `connection`, `timeout`, `protocol` for a reply that is no HTTP or no ACME, `database`, or
 * `check-<what>` when a reply was well formed and wrong.
 */
export class Failure extends Error {
  readonly kind: string
  /** Seconds the server asked us to stay away; undefined when it did not. */
  readonly retryAfterSeconds: number | undefined
  /** HTTP status of the reply; undefined when there was none. */
  readonly status: number | undefined

  constructor(kind: string, detail: string, retryAfterSeconds?: number, status?: number) {
    super(detail)
    this.name = 'Failure'
    this.kind = kind
    this.retryAfterSeconds = retryAfterSeconds
    this.status = status
  }
}

/** The server said "not now" and when to come back: load that it shed, not an error. Without Retry-After it is a failure. */
export function isRefusal(error: unknown): boolean {
  return error instanceof Failure && error.status === 503 && error.retryAfterSeconds !== undefined
}

/** A wrong answer, as opposed to a refused or lost one: one of these makes the whole run fail. */
export function isCheckFailure(kind: string): boolean {
  return kind.startsWith('check-')
}
