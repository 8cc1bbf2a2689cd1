/** The interface of a private key: it signs bytes and never reveals the key. */

import type { SignatureAlgorithm } from '../../src/shared/pki/algorithms.ts'

/** Threads of libuv's pool, which make slow signatures. One stays free, so that the audit chain never queues. */
export function poolThreads(): number {
  return Number(process.env['UV_THREADPOOL_SIZE']) || DEFAULT_THREADS
}

/** libuv's default without the variable. */
const DEFAULT_THREADS = 4

export interface StreamedSignature {
  update(piece: Buffer): void
  finish(): Buffer | Promise<Buffer>
}

export interface SigningKey {
  /** For people: `file` or `pkcs11`. */
  readonly kind: string
  /**
   * How many `sign` calls may run at once. 0: `sign` returns a Buffer in place, because another thread would cost more.
   */
  readonly concurrency: number
  /** Longest wait of a call in the queue, beside its deadline; undefined: only the deadline counts. */
  readonly maxWaitMs?: number
  /** Only for a key that can disappear while the daemon runs. */
  readonly state?: KeyState
  /** Returns the signature value for a certificate. For ECDSA that is the DER form (RFC 3279 §2.2.3). */
  sign(data: Buffer): Buffer | Promise<Buffer>
  /**
   * Begins a signature over bytes that arrive in pieces, for a CRL too long for memory.
   * @returns undefined when the key cannot stream with this algorithm. It then needs the whole as
   * one Buffer, as does a key without this method.
   */
  begin?(algorithm: SignatureAlgorithm): StreamedSignature | undefined
  /** Checks without a signature whether the token is still there; `state` has the result. */
  ping?(): void
  /** @throws Error in one sentence when this is not the PIN in use */
  requirePin?(pin: string): void
  close(): Promise<void>
}

/**
 * `away`: the daemon looks for the token, which may return. `refused`: the operator must correct
 * the PIN and restart the daemon.
 */
export type KeyState = { status: 'ready'; since: Date } | { status: 'away' | 'refused'; since: Date; reason: string }
