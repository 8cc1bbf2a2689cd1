/**
 * What the daemon asks of a private key, wherever it lives: signatures over bytes,
 * and nothing that shows the key.
 */

import type { SignatureAlgorithm } from '../../src/shared/pki/algorithms.ts'

export interface StreamedSignature {
  update(piece: Buffer): void
  finish(): Buffer | Promise<Buffer>
}

export interface SigningKey {
  /** For people: `file` or `pkcs11`. */
  readonly kind: string
  /**
   * How many `sign` calls may run at once. 0: `sign` works in place and returns a Buffer, because
   * it costs less than a trip to another thread.
   */
  readonly concurrency: number
  /** How long a call may wait for its turn, beside its deadline; undefined: as long as that. */
  readonly maxWaitMs?: number
  /** Only of a key that can go away while the daemon runs. */
  readonly state?: KeyState
  /**
   * The signature value as it stands in a certificate (for ECDSA the DER form, RFC 3279
   * §2.2.3) over the hash of `data`.
   */
  sign(data: Buffer): Buffer | Promise<Buffer>
  /**
   * A signature over bytes that come in pieces and are hashed as they come, for a CRL too long to
   * be held. Undefined when the key cannot sign so with this algorithm; absent when it never can.
   * Such a key gets the whole as one Buffer.
   */
  begin?(algorithm: SignatureAlgorithm): StreamedSignature | undefined
  close(): Promise<void>
}

/**
 * `away`: it is looked for and may come back by itself. `refused`: it waits for
 * its operator and for a new start.
 */
export type KeyState = { status: 'ready'; since: Date } | { status: 'away' | 'refused'; since: Date; reason: string }
