/**
 * The CA backend: what issuance needs of the holder of the signing key.
 *
 * A backend takes a finished TBSCertificate and returns a certificate; it never sees a database.
 */

import type { SignatureAlgorithm } from '../shared/pki/algorithms.ts'

/** One issuer certificate and what a TBSCertificate has to say about it. */
export interface CaIssuer {
  /** Operator's name of the issuer, such as `default`; unique within the backend. */
  id: string
  certificate: Buffer
  /** DER certificates from `certificate` upwards, itself included; whether the root is last is configuration. */
  chain: readonly Buffer[]
  /** Other ways from the issuer's key to a root (cross-signatures), each as `chain` is; usually none. */
  alternateChains: readonly (readonly Buffer[])[]
  /** DER of the issuer's subject Name, copied byte for byte into the TBSCertificate (RFC 5280 §4.1.2.4). */
  nameDer: Buffer
  /** The issuer's subjectKeyIdentifier; becomes the authorityKeyIdentifier. */
  keyIdentifier: Buffer
  /** The algorithm the issuer signs with; stands inside the TBSCertificate (RFC 5280 §4.1.1.2). */
  signatureAlgorithm: SignatureAlgorithm
  notBefore: Date
  notAfter: Date
}

export interface SignOptions {
  /** Milliseconds from now until the caller stops waiting. */
  timeoutMs: number
  /** Who asked, for the audit chain: an order id, or a word such as `self`. */
  requester: string
}

/** A TBSCertList that is too long to be held: read once, from front to back. */
export interface StreamedTbs {
  signatureAlgorithm: SignatureAlgorithm
  /** Bytes of all pieces together. */
  length: number
  pieces: AsyncIterable<Buffer>
}

/** Nothing can be signed for the moment. */
export interface CaOutage {
  /** For clients and logs. */
  reason: string
  retryAfterSeconds: number
}

export interface CaBackend {
  readonly kind: string
  /** Current issuers; refreshed when the backend reconnects. Empty while it has never been reached. */
  issuers(): readonly CaIssuer[]
  /** Why a signature that is asked for now would be refused unseen; undefined when it is worth asking. */
  outage(): CaOutage | undefined
  /**
   * Signs one TBSCertificate (RFC 5280 §4.1.2) and returns the whole certificate in DER, its signature verified.
   * @throws CaError
   */
  signCertificate(issuerId: string, tbs: Buffer, options: SignOptions): Promise<Buffer>
  /**
   * Signs one TBSCertList (RFC 5280 §5.1.2) and returns the signature value, verified.
   * @throws CaError; whatever the reason, the number of the list may be used up
   */
  signCrl(issuerId: string, tbs: StreamedTbs, options: SignOptions): Promise<Buffer>
  /** Makes one real signature over test data with every issuer key. @throws CaError */
  testSign(options: { timeoutMs: number }): Promise<{ issuer: string; durationMs: number }[]>
  /**
   * Why the backend cannot be asked anything at the moment, as far as that is known; undefined when it can. What is asked
   * all the same waits for it until its own deadline.
   */
  unreachable(): Error | undefined
  /** What the backend says of itself, without a signature. @throws CaError */
  health(options: { timeoutMs: number }): Promise<CaHealth>
  close(): Promise<void>
}

export interface CaHealth {
  /** False when it signs nothing until somebody has looked after it. */
  signing: boolean
  /** Keys in tokens, and whether each is at hand; empty when no key is in a token. */
  tokens: readonly TokenState[]
}

/** `refused`: the token did not accept the PIN, and waits for its operator. */
export interface TokenState {
  issuer: string
  status: 'ready' | 'away' | 'refused'
  /** RFC 3339. */
  since: string
}

/** `retryable`: the same request may succeed later (backend away, busy); otherwise it was refused for good. */
export class CaError extends Error {
  readonly retryable: boolean
  /** The CA does not certify one of the names, and this sentence says which; nothing is wrong with the request otherwise. */
  readonly nameRefusal: string | undefined

  constructor(message: string, options: { retryable: boolean; cause?: unknown; nameRefusal?: string | undefined }) {
    super(message, { cause: options.cause })
    this.name = 'CaError'
    this.retryable = options.retryable
    this.nameRefusal = options.nameRefusal
  }
}
