/** Why an administrative action is refused: for the Admin API and the command line alike. */

/** Code → HTTP status. */
export const ADMIN_ERRORS = {
  invalid_request: 400,
  unauthorized: 401,
  /** The passkey was not accepted; the session stays. */
  passkey_refused: 401,
  forbidden: 403,
  /** `POST /me/passkeys`, then once more. */
  second_factor_needed: 403,
  /** `POST /auth/confirm`, then once more. */
  sign_in_again: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  too_large: 413,
  unsupported_media_type: 415,
  /** Once more with the header Approval-Reason. */
  approval_needed: 428,
  rate_limited: 429,
  internal: 500,
  unavailable: 503,
} as const

export type AdminErrorCode = keyof typeof ADMIN_ERRORS

/** One wrong member or parameter, and what would be right. */
export interface FieldError {
  /** Such as `filter.domain`. */
  field: string
  message: string
}

interface AdminErrorOptions {
  fields?: readonly FieldError[]
  retryAfterSeconds?: number
  /** For the log only. */
  cause?: unknown
  /** Query that continues a list that was cut off. */
  next?: Readonly<Record<string, string>>
  /** Methods of a 405. */
  allow?: readonly string[]
}

/** `message` is an English sentence for the administrator; it never quotes a secret. */
export class AdminError extends Error {
  readonly code: AdminErrorCode
  readonly options: AdminErrorOptions

  constructor(code: AdminErrorCode, message: string, options: AdminErrorOptions = {}) {
    super(message, { cause: options.cause })
    this.name = 'AdminError'
    this.code = code
    this.options = options
  }

  get status(): number {
    return ADMIN_ERRORS[this.code]
  }
}

export const notFound = (what: string) => new AdminError('not_found', `there is no such ${what}`)

/** @throws AdminError not_found for what is not there */
export function requireFound<T>(found: T | null | undefined | false, what: string): T {
  if (found === null || found === undefined || found === false) throw notFound(what)
  return found
}
