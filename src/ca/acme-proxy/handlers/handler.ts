/** What publishes the responses to an upstream's challenges. */

/** One response, in the forms of both methods (RFC 8555 §8.3, §8.4). */
export interface ChallengeResponse {
  /** As in the authorization, without `*.`; an IP address for http-01. */
  domain: string
  token: string
  keyAuthorization: string
  /** `_acme-challenge.<domain>`. */
  recordName: string
  /** base64url of the SHA-256 of the key authorization. */
  recordValue: string
}

export interface ChallengeHandler {
  /** From the last response placed to the moment the upstream may look. */
  readonly propagationMs: number
  /** The longest that one call may take. */
  readonly timeoutMs: number
  /** Calls at the same time. */
  readonly concurrency: number
  /** May be called again for a response that is there. @throws Error for the log */
  place(response: ChallengeResponse, signal: AbortSignal): Promise<void>
  /** May be called for a response that is not there. @throws Error for the log */
  remove(response: ChallengeResponse, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}
