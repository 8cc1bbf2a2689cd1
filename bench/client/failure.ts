/** The failure of one operation: a short kind that failures are counted by, and a sentence for a reader. */

/**
 * `kind` is the ACME problem type without its prefix (`badNonce`), or `http-<status>` for a reply that is no problem
 * document. Others: `connection`, `timeout`, `protocol`, and `check-<what>` for a reply that is well formed and wrong.
 */
export class Failure extends Error {
  override readonly name = 'Failure'
  readonly kind: string
  /** Seconds the server asked us to stay away; undefined when it did not. */
  readonly retryAfterSeconds: number | undefined
  /** HTTP status of the reply; undefined when there was none. */
  readonly status: number | undefined

  constructor(kind: string, detail: string, retryAfterSeconds?: number, status?: number) {
    super(detail)
    this.kind = kind
    this.retryAfterSeconds = retryAfterSeconds
    this.status = status
  }
}

/** Load that the server shed: it said when to come back. Without Retry-After it is a failure. */
export function isRefusal(error: unknown): boolean {
  return error instanceof Failure && error.status === 503 && error.retryAfterSeconds !== undefined
}
