/**
 * The CA backend: what issuance needs from the holder of the signing key.
 *
 * A backend turns a finished TBSCertificate into a certificate; it never sees a database.
 */

import type { SignatureAlgorithm } from '../shared/pki/algorithms.ts'
import type { NameConstraints } from '../shared/pki/name-constraints.ts'
import type { SignerRecords } from './signer-records.ts'

/** One issuer certificate and the fields it contributes to a TBSCertificate. */
export interface CaIssuer {
  /** Operator's name of the issuer, such as `default`; unique within the backend. */
  id: string
  certificate: Buffer
  /** DER certificates from `certificate` upwards, itself included. Configuration decides whether the root is last. */
  chain: readonly Buffer[]
  /** Other chains from the issuer's key to a root (cross-signatures); usually none. */
  alternateChains: readonly (readonly Buffer[])[]
  /** DER of the issuer's subject Name, copied byte for byte into certificates (RFC 5280 §4.1.2.4). */
  nameDer: Buffer
  /** The issuer's subjectKeyIdentifier; becomes the authorityKeyIdentifier. */
  keyIdentifier: Buffer
  /** The issuer's algorithm, which the TBSCertificate repeats (RFC 5280 §4.1.1.2). */
  signatureAlgorithm: SignatureAlgorithm
  notBefore: Date
  notAfter: Date
  /** The name constraints of the CA certificates in all its chains (RFC 5280 §4.2.1.10). */
  constraints: readonly NameConstraints[]
}

export interface SignOptions {
  /** Milliseconds from now until the caller stops waiting. */
  timeoutMs: number
  /** For the audit chain (`renderRequester` of signer-records.ts). */
  requester: string
}

/** A TBSCertList too long for memory; it is read once, from front to back. */
export interface StreamedTbs {
  signatureAlgorithm: SignatureAlgorithm
  /** Bytes of all pieces together. */
  length: number
  pieces: AsyncIterable<Buffer>
}

/** Nothing can be signed at the moment. */
export interface CaOutage {
  /** For clients and logs. */
  reason: string
  retryAfterSeconds: number
}

export interface CaBackend {
  readonly kind: string
  /** Current issuers, refreshed when the backend reconnects. Empty before the first connection. */
  issuers(): readonly CaIssuer[]
  /** Why a signature would be refused now without being tried; undefined when a try makes sense. */
  outage(): CaOutage | undefined
  /**
   * Signs one TBSCertificate (RFC 5280 §4.1.2) and returns the certificate in DER, its signature verified.
   * @throws CaError
   */
  signCertificate(issuerId: string, tbs: Buffer, options: SignOptions): Promise<Buffer>
  /**
   * Signs one TBSCertList (RFC 5280 §5.1.2) and returns the verified signature value.
   * @throws CaError; even then the number of the list may be used up
   */
  signCrl(issuerId: string, tbs: StreamedTbs, options: SignOptions): Promise<Buffer>
  /** Makes one real signature over test data with every issuer key. @throws CaError */
  testSign(options: { timeoutMs: number }): Promise<{ issuer: string; durationMs: number }[]>
  /**
   * Why the backend is known to be unreachable; undefined when it is not. A call made anyway waits
   * until its own deadline.
   */
  unreachable(): Error | undefined
  /** The records of its signatures; absent where no certificate is signed here. */
  readonly records?: SignerRecords
  /** The backend's own report, made without a signature. @throws CaError */
  health(options: { timeoutMs: number }): Promise<CaHealth>
  close(): Promise<void>
}

export interface CaHealth {
  /** False when it signs nothing until an operator intervenes. */
  signing: boolean
  /** State of each key in a token; empty when no key is in a token. */
  tokens: readonly TokenState[]
}

/** `refused`: the token rejected the PIN and waits for its operator. */
interface TokenState {
  issuer: string
  status: 'ready' | 'away' | 'refused'
  /** RFC 3339. */
  since: string
  /** Why it is not ready: for the operator, not for `/healthz`. */
  reason?: string | undefined
}

/** `retryable`: the same request may succeed later (backend away, busy); otherwise the refusal is final. */
export class CaError extends Error {
  readonly retryable: boolean
  /** Names the identifier that the CA does not certify; nothing else is wrong with the request. */
  readonly nameRefusal: string | undefined
  /** Whether a certificate may exist all the same, as after a lost answer. */
  readonly mayHaveIssued: boolean
  /** When the backend has said when to come back. */
  readonly retryAfterMs: number | undefined
  /** After a rate limit: for how long the CA wants no new orders, 0 where it does not say. It is not away. */
  readonly pauseMs: number | undefined

  constructor(message: string, options: CaErrorOptions) {
    super(message, { cause: options.cause })
    this.name = 'CaError'
    this.retryable = options.retryable
    this.nameRefusal = options.nameRefusal
    this.mayHaveIssued = options.mayHaveIssued === true
    this.retryAfterMs = options.retryAfterMs
    this.pauseMs = options.pauseMs
  }
}

interface CaErrorOptions {
  retryable: boolean
  cause?: unknown
  nameRefusal?: string | undefined
  mayHaveIssued?: boolean
  retryAfterMs?: number | undefined
  pauseMs?: number | undefined
}
