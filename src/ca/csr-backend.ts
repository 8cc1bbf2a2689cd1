/**
 * CA backends that issue from a CSR: an external CA, another ACME service, a module. They choose
 * serial number, validity and issuer themselves. `backend.ts` has those that sign what we build.
 *
 * A backend works in steps, and issuance commits what a step has answered before the next one. So
 * a crash repeats one step at most (docs/decisions/backends.md).
 */

import type { Identifier } from '../shared/protocol/identifier.ts'
import type { ProblemDocument } from '../shared/protocol/problem.ts'

/** State of a backend between two steps; kept as JSON, never shown to clients. */
export type BackendState =
  | string
  | number
  | boolean
  | null
  | readonly BackendState[]
  | { readonly [member: string]: BackendState }

/** The request for a certificate; it is equal in every step of one issuance. */
export interface IssuanceRequest {
  /** A UUID, unique to the issuance; serves as idempotency key. */
  certificateId: string
  orderId: string
  /** DER of the client's PKCS #10 request; its signature, key and names are checked. */
  csr: Buffer
  /** The names of the order; the certificate must have exactly these. */
  identifiers: readonly Identifier[]
  /** Name of the order's profile. */
  profile: string
  /** The validity that this service would give. A backend may give another within policy. */
  notBefore: Date
  notAfter: Date
  validityDays: number
  /** The validity that the client has asked for (RFC 8555 §7.4); no other period may be issued then. */
  requested: { notBefore?: Date; notAfter?: Date }
  /** The certID of the certificate that the order replaces (RFC 9773 §4.1). */
  replaces: string | undefined
}

export interface StepOptions {
  /** Aborts when the step has taken `stepTimeoutMs`, or the service stops. */
  signal: AbortSignal
  /** An earlier call with this state left no answer, as after a crash. Its effects may have happened upstream. */
  isRepeated: boolean
  /**
   * The order has ended without a certificate. Begin and finalize nothing; fetch what may have been
   * issued, so that it is recorded and revoked, or answer `refused`.
   */
  isAbandoned: boolean
}

/**
 * A report to the circuit breaker: `failed` where the CA failed and is asked again, `none` where it was not asked.
 * Without it the CA has answered.
 */
export interface Contact {
  contact?: 'failed' | 'none'
}

/** The answer of a step that ended without an error. */
export type IssuanceStep = Contact &
  (
    | {
        status: 'issued'
        /** DER, the leaf first, then its issuers in order; with or without the root. */
        chain: readonly Buffer[]
        /** Further chains for the same leaf, each without it; their first is another issuer certificate. */
        alternateChains?: readonly (readonly Buffer[])[]
      }
    | {
        status: 'pending'
        /** Handed to the next step once it is committed. */
        state: BackendState
        /** 0 takes the next step at once. */
        retryAfterMs: number
        /**
         * From the next step on a certificate may exist. Then the order stays with this backend, and
         * a certificate that comes too late is still fetched.
         */
        mayHaveIssued: boolean
      }
    | {
        /** Final. No other backend is asked. */
        status: 'refused'
        /** For the client, in words of our own: nothing of the backend's answer. */
        problem: ProblemDocument
        /** For the log. */
        reason: string
      }
  )

/** A certificate to be revoked upstream. */
interface UpstreamRevocation {
  /** DER */
  certificate: Buffer
  /** CRLReason (RFC 5280 §5.3.1); 0 when none was given. */
  reason: number
}

/** RFC 9773 §4.2, as the upstream CA answers. */
export interface UpstreamRenewal {
  start: Date
  end: Date
  explanationUrl: string | undefined
  retryAfterMs: number
}

/**
 * One backend of the supervisor's thread. It has several issuances at a time and bounds its own parallelism.
 *
 * A step that throws `CaError` decides by two flags:
 *
 * | retryable | mayHaveIssued | then |
 * | --- | --- | --- |
 * | yes | no | the next backend of `failover` is asked; without one this again, with the same state |
 * | yes | yes | this backend is asked again later, with the same state |
 * | no | no | the order fails |
 * | no | yes | the order fails, with an alarm |
 *
 * Any other error counts as two yes. The message goes to the log, never to a client.
 */
export interface CsrBackend {
  /** The name in configuration, database, metrics and log, such as `external`. */
  readonly name: string
  /** The longest time one step may take. */
  readonly stepTimeoutMs: number
  /** Revocations are not reported to the CA, and `revoke` does nothing. */
  readonly ignoresRevocations?: true
  /**
   * One step of an issuance.
   * @param state what the last step answered; undefined for the first
   * @throws CaError
   */
  advance(request: IssuanceRequest, state: BackendState | undefined, step: StepOptions): Promise<IssuanceStep>
  /**
   * Called when another backend takes the issuance over: withdraws one part of what was published
   * for it. `pending` with the state `null` when nothing is left.
   * @throws CaError; then what is left stays
   */
  leave?(request: IssuanceRequest, state: BackendState, signal: AbortSignal): Promise<IssuanceStep>
  /**
   * Resolves when the CA has confirmed, also one that knew the certificate as revoked. It is asked
   * again after any error, for as long as no administrator gives up.
   * @throws CaError
   */
  revoke(revocation: UpstreamRevocation, signal: AbortSignal): Promise<void>
  /** Whether the CA can be reached, without issuing anything. @throws CaError */
  checkHealth(signal: AbortSignal): Promise<void>
  /** The renewal window that the CA suggests; undefined when it suggests none. @throws CaError */
  renewalInfo?(certificate: Buffer, signal: AbortSignal): Promise<UpstreamRenewal | undefined>
  close(): Promise<void>
}

/** Bounds of the advice about renewal that is passed on (RFC 9773 §4), whichever CA gives it. */
const SHORTEST_RETRY_MS = 60_000
const LONGEST_RETRY_MS = 86_400_000
const MAX_URL_LENGTH = 2048

/** Every certificate is asked for, so none too often. */
export function renewalRetryMs(askedMs: number): number {
  return Math.min(Math.max(askedMs, SHORTEST_RETRY_MS), LONGEST_RETRY_MS)
}

/** It is shown to clients, so only what a browser opens without danger. */
export function explanationOf(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > MAX_URL_LENGTH || !URL.canParse(value)) return undefined
  return new URL(value).protocol === 'https:' ? value : undefined
}
